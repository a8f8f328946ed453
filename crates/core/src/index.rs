//! Lookups by id.

#![expect(clippy::disallowed_types, reason = "cannot be iterated, so its random order cannot leak")]

use std::{borrow::Borrow, collections::HashMap, hash::Hash};

/// A hash map that supports only lookups of single keys. The hash is seeded at random, which
/// keeps hostile ids from colliding on purpose. The map cannot be iterated, so a run still
/// replays exactly.
#[derive(Debug)]
pub(crate) struct Index<K, V>(HashMap<K, V>);

impl<K, V> Default for Index<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Eq + Hash, V: Copy> Index<K, V> {
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key).copied()
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.remove(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
