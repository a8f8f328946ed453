//! So many at a time, and of them so many for one.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

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
    /// Only of those who have one.
    by: HashMap<K, usize>,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// All are taken: so many.
    All(usize),
    /// Whoever asks has as many as one may have.
    OfOne(usize),
}

/// One place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place<K: Eq + Hash> {
    places: Arc<Places<K>>,
    of: Option<K>,
}

impl<K: Eq + Hash + Clone> Places<K> {
    pub(super) fn new(most: usize, each: usize) -> Self {
        Self { most, each, taken: Mutex::new(Taken { all: 0, by: HashMap::new() }) }
    }

    /// Takes one for this one; where there is nobody to tell apart, all are everybody's.
    pub(super) fn enter(self: &Arc<Self>, of: Option<K>) -> Result<Place<K>, Full> {
        let mut taken = self.taken();
        if taken.all >= self.most {
            return Err(Full::All(self.most));
        }
        if let Some(one) = &of {
            let own = taken.by.entry(one.clone()).or_default();
            if *own >= self.each {
                return Err(Full::OfOne(self.each));
            }
            *own += 1;
        }
        taken.all += 1;
        Ok(Place { places: Arc::clone(self), of })
    }
}

impl<K> Places<K> {
    fn taken(&self) -> MutexGuard<'_, Taken<K>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Some(one) = &self.of
            && let Some(own) = taken.by.get_mut(one)
        {
            *own -= 1;
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
        assert!(places.taken().by.is_empty() && places.taken().all == 0, "nothing is kept of who left");
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
