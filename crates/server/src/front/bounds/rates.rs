//! Limits submissions a second, by token: a bucket that holds ten seconds' worth.
//!
//! For each bucket, only the moment at which it would be full again is stored (GCRA). A full bucket
//! is the same as an unused one, and is forgotten. A batch is accepted as a whole as long as the
//! bucket is not empty, so no batch is too large; the next submission waits for the excess.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use multicluster_types::settings::Rate;
use parking_lot::Mutex;

use crate::front::access::{Sha256, Token};

/// This many seconds' worth may come at once after a quiet time.
const WINDOW: Duration = Duration::from_secs(10);
/// With more buckets than this, the full ones are forgotten.
const MANY: usize = 1024;

#[derive(Debug)]
pub(super) struct Rates(Mutex<Buckets>);

#[derive(Debug)]
struct Buckets {
    usual: Rate,
    full_at: HashMap<Sha256, Instant>,
}

/// A taken amount. When dropped, it gives back the part that was not accepted.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// `None`: nothing is counted.
    from: Option<(Arc<Rates>, Arc<Token>)>,
    count: usize,
}

impl Taken {
    /// This many were accepted: they stay taken.
    pub(crate) fn keep(mut self, count: usize) {
        self.count -= count.min(self.count);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some((rates, token)) = &self.from {
            rates.give_back(token, self.count);
        }
    }
}

/// The rate was exceeded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Over {
    pub(super) per_second: u32,
    /// After this time there is room.
    pub(super) wait: Duration,
}

impl Rates {
    pub(super) fn new(usual: Rate) -> Self {
        Self(Mutex::new(Buckets { usual, full_at: HashMap::new() }))
    }

    /// Sets the rate of tokens that have none of their own.
    pub(super) fn set(&self, usual: Rate) {
        self.0.lock().usual = usual;
    }

    /// Takes this many out of the token's bucket.
    pub(super) fn take(self: &Arc<Self>, token: &Arc<Token>, count: usize) -> Result<Taken, Over> {
        self.take_at(Instant::now(), token, count)?;
        Ok(Taken { from: Some((Arc::clone(self), Arc::clone(token))), count })
    }

    fn take_at(&self, now: Instant, token: &Token, count: usize) -> Result<(), Over> {
        let mut buckets = self.0.lock();
        let Some(per_second) = token.submit_rate.unwrap_or(buckets.usual).per_second() else { return Ok(()) };
        if buckets.full_at.len() >= MANY {
            buckets.full_at.retain(|_, full_at| *full_at > now);
        }
        let full_at = buckets.full_at.get(token.sha256()).map_or(now, |full_at| now.max(*full_at));
        let one = Duration::from_secs(1) / per_second;
        let taken = full_at - now;
        if taken + one > WINDOW.max(one) {
            return Err(Over { per_second, wait: taken + one - WINDOW.max(one) });
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        buckets.full_at.insert(token.sha256().clone(), full_at + one * count);
        Ok(())
    }

    /// Puts this many back, because they were not accepted.
    fn give_back(&self, token: &Token, count: usize) {
        let mut buckets = self.0.lock();
        let Some(per_second) = token.submit_rate.unwrap_or(buckets.usual).per_second() else { return };
        let span = Duration::from_secs(1) / per_second * u32::try_from(count).unwrap_or(u32::MAX);
        if let Some(full_at) = buckets.full_at.get_mut(token.sha256()) {
            // Earlier than any instant: the bucket is full already.
            *full_at = full_at.checked_sub(span).unwrap_or(*full_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    #[test]
    fn ten_seconds_worth_may_come_at_once_and_then_so_many_a_second() {
        let (rates, token, start) = (Rates::new(rate("5/s")), Token::of_test("zorro"), Instant::now());
        let later = |millis| start + Duration::from_millis(millis);
        let taken = (0..100).filter(|_| rates.take_at(start, &token, 1).is_ok()).count();
        assert_eq!(taken, 50);
        let over = rates.take_at(start, &token, 1).unwrap_err();
        assert_eq!((over.per_second, over.wait), (5, Duration::from_millis(200)));
        assert!(rates.take_at(later(199), &token, 1).is_err());
        assert!(rates.take_at(later(200), &token, 1).is_ok());
        assert!(rates.take_at(later(200), &Token::of_test("diego"), 1).is_ok(), "another's is full");
        let taken = (0..1000).filter(|step| rates.take_at(later(200 + step * 10), &token, 1).is_ok()).count();
        assert_eq!(taken, 49, "ten seconds later");
    }

    #[test]
    fn a_batch_is_taken_as_a_whole_and_paid_for_afterwards() {
        let (rates, token, start) = (Rates::new(rate("100/s")), Token::of_test("zorro"), Instant::now());
        assert!(rates.take_at(start, &token, 10_000).is_ok(), "none is too large");
        let over = rates.take_at(start, &token, 1).unwrap_err();
        assert_eq!(over.wait, Duration::from_millis(90_010));
        assert!(rates.take_at(start + over.wait, &token, 1).is_ok());
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_no_more_than_that() {
        let (rates, token, start) = (Rates::new(rate("5/s")), Token::of_test("zorro"), Instant::now());
        let taken = || (0..100).filter(|_| rates.take_at(start, &token, 1).is_ok()).count();
        rates.give_back(&token, 7);
        assert_eq!(taken(), 50, "a full bucket takes nothing back");
        rates.give_back(&token, 7);
        assert_eq!(taken(), 7);
    }

    #[test]
    fn what_is_not_accepted_is_given_back() {
        let (rates, token) = (Arc::new(Rates::new(rate("5/s"))), Arc::new(Token::of_test("zorro")));
        let full_at = || rates.0.lock().full_at[token.sha256()];
        rates.take(&token, 10).unwrap().keep(10);
        let before = full_at();
        rates.take(&token, 10).unwrap().keep(4);
        assert_eq!(full_at() - before, Duration::from_millis(800));
        drop(rates.take(&token, 10).unwrap());
        assert_eq!(full_at() - before, Duration::from_millis(800));
    }

    #[test]
    fn a_token_may_have_its_own_and_a_new_setting_is_in_force_at_once() {
        let (rates, start) = (Rates::new(rate("1/s")), Instant::now());
        let mut token = Token::of_test("zorro");
        token.submit_rate = Some(rate("unlimited"));
        assert!((0..1000).all(|_| rates.take_at(start, &token, 1000).is_ok()));
        let token = Token::of_test("diego");
        while rates.take_at(start, &token, 1).is_ok() {}
        rates.set(rate("unlimited"));
        assert!(rates.take_at(start, &token, 1).is_ok());
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let (rates, start) = (Rates::new(rate("100/s")), Instant::now());
        for number in 0..3 * MANY as u64 {
            let token = Token::of_test(&format!("owner-{number}"));
            rates.take_at(start + Duration::from_millis(number), &token, 1).unwrap();
        }
        assert!(rates.0.lock().full_at.len() <= MANY, "{}", rates.0.lock().full_at.len());
    }
}
