//! Lists in answers. An entry of two bytes may take hundreds in memory, so lists are limited to a
//! length that no real one has.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};

/// More than the largest answer can hold of entries of the usual size.
const MOST: usize = 200_000;

/// A list that is refused as soon as it is too long.
pub(crate) fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    struct Bounded<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(entry) = entries.next_element()? {
                if list.len() == MOST {
                    return Err(A::Error::custom(format!("more than {MOST} entries")));
                }
                list.push(entry);
            }
            Ok(list)
        }
    }
    from.deserialize_seq(Bounded(PhantomData))
}
