//! Limits how many may be in use at a time, in total and for one key.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;

/// Places that are taken and given back.
#[derive(Debug)]
pub(super) struct Places<K> {
    most: usize,
    each: usize,
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    all: usize,
    /// Only keys that have a place.
    by: HashMap<K, usize>,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// All are taken; the number of places.
    All(usize),
    /// This key has as many places as one key may have.
    OfOne(usize),
}

/// One place, or several, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<K: Eq + Hash> {
    places: Arc<Places<K>>,
    of: Option<K>,
    count: usize,
}

impl<K: Eq + Hash + Clone> Places<K> {
    pub(super) fn new(most: usize, each: usize) -> Self {
        Self { most, each, taken: Mutex::new(Taken { all: 0, by: HashMap::new() }) }
    }

    /// Takes a place for this key; without a key, only the total is limited.
    pub(super) fn enter(self: &Arc<Self>, of: Option<K>) -> Result<Held<K>, Full> {
        self.enter_with(of, 1)
    }

    /// The same, for several places at once.
    pub(super) fn enter_with(self: &Arc<Self>, of: Option<K>, count: usize) -> Result<Held<K>, Full> {
        let mut place = Held { places: Arc::clone(self), of, count: 0 };
        place.grow(count)?;
        Ok(place)
    }
}

impl<K: Eq + Hash + Clone> Held<K> {
    /// Takes this many more, or none.
    pub(super) fn grow(&mut self, more: usize) -> Result<(), Full> {
        let Places { most, each, .. } = *self.places;
        let mut taken = self.places.taken.lock();
        if taken.all + more > most {
            return Err(Full::All(most));
        }
        if let Some(one) = &self.of {
            let own = taken.by.get(one).map_or(more, |own| own + more);
            if own > each {
                return Err(Full::OfOne(each));
            }
            taken.by.insert(one.clone(), own);
        }
        taken.all += more;
        self.count += more;
        Ok(())
    }
}

impl<K: Eq + Hash> Drop for Held<K> {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all -= self.count;
        if let Some(one) = &self.of
            && let Some(own) = taken.by.get_mut(one)
        {
            *own -= self.count;
            if *own == 0 {
                taken.by.remove(one);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cannot_take_all_and_what_is_given_back_is_free() {
        let places = Arc::new(Places::new(3, 2));
        let enter = |of: &'static str| places.enter(Some(of));
        let (first, second) = (enter("a").unwrap(), enter("a").unwrap());
        assert_eq!(enter("a").unwrap_err(), Full::OfOne(2));
        let third = enter("b").unwrap();
        assert_eq!(enter("b").unwrap_err(), Full::All(3));
        drop(first);
        assert!(enter("b").is_ok());
        drop((second, third));
        assert!(
            places.taken.lock().by.is_empty() && places.taken.lock().all == 0,
            "nothing is kept of who left"
        );
    }

    #[test]
    fn whoever_takes_several_gives_them_back_together() {
        let places = Arc::new(Places::new(10, 6));
        let mut first = places.enter_with(Some("a"), 4).unwrap();
        assert_eq!(places.enter_with(Some("a"), 3).unwrap_err(), Full::OfOne(6));
        assert_eq!(places.enter_with(Some("b"), 7).unwrap_err(), Full::All(10));
        first.grow(2).unwrap();
        assert_eq!(first.grow(1).unwrap_err(), Full::OfOne(6));
        let second = places.enter_with(Some("b"), 4).unwrap();
        assert_eq!(places.enter(None).unwrap_err(), Full::All(10));
        drop((first, second));
        assert!(places.taken.lock().by.is_empty() && places.taken.lock().all == 0);
    }

    #[test]
    fn where_nobody_is_told_apart_all_are_everybodys() {
        let places = Arc::new(Places::<String>::new(3, 1));
        let taken: Vec<_> = (0..3).map(|_| places.enter(None).unwrap()).collect();
        assert_eq!(places.enter(None).unwrap_err(), Full::All(3));
        drop(taken);
        assert!(places.enter(None).is_ok());
    }
}
