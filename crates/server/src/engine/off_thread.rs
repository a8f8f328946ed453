//! Runs work that would delay other requests: disk access, and milliseconds of computation.

use super::driver::Failure;

/// Runs this on a thread of its own. A panic is a bug, not a reason to retry.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| match error.is_panic() {
        true => Failure::Bug,
        false => Failure::Stopping,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Problem;

    #[tokio::test]
    async fn a_panic_is_reported_as_a_bug() {
        let failure = off_thread(|| panic!("a bug") as ()).await.unwrap_err();
        let problem = Problem::from(failure);
        assert_eq!((problem.status.as_u16(), problem.code), (500, "internal"));
    }
}
