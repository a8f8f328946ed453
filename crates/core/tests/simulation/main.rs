//! Seeded simulation: the real core among fake clusters that finish, fail, hang,
//! lie, lose contact, come back, drop, delay and duplicate answers, and with a
//! control plane that crashes between commit and effect. Every invariant is
//! checked after every step.
//!
//! `SIM_SEED=17` replays one seed with a trace; `SIM_SEEDS=100000` runs more;
//! `SIM_SECONDS=600` runs for a time (`make worlds`).

#![allow(unreachable_pub, reason = "a test binary exports nothing")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "drives the core from outside"
)]

mod client;
mod loops;
mod oracle;
mod plan;
mod preemption;
mod ray;
mod room;
mod sharing;
mod world;

use std::{
    panic::catch_unwind,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// The number of seeds in `make test`: about a minute on two cores.
const DEFAULT_SEEDS: u64 = 3_000;

#[test]
fn every_invariant_holds_in_thousands_of_seeded_worlds() {
    if let Some(seed) = number("SIM_SEED") {
        world::run(seed, true);
        return;
    }
    let deadline = number("SIM_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let seeds = if deadline.is_some() { u64::MAX } else { number("SIM_SEEDS").unwrap_or(DEFAULT_SEEDS) };
    let first = number("SIM_FIRST_SEED").unwrap_or(0);
    let (next, failed, steps) = (AtomicU64::new(first), AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let over = seed - first >= seeds || deadline.is_some_and(|at| Instant::now() >= at);
                    if over || failed.load(Ordering::Relaxed) != u64::MAX {
                        return;
                    }
                    match catch_unwind(|| world::run(seed, false)) {
                        Ok(count) => {
                            steps.fetch_add(count, Ordering::Relaxed);
                        }
                        Err(_) => {
                            failed.fetch_min(seed, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let seed = failed.into_inner();
    assert!(
        seed == u64::MAX,
        "seed {seed} breaks an invariant (see above). Replay it with a trace:\n  \
         SIM_SEED={seed} cargo test -p multicluster-core --test simulation -- --nocapture"
    );
    println!(
        "{} worlds, {} steps",
        next.into_inner().saturating_sub(first + threads as u64),
        steps.into_inner()
    );
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [1, 2, 3] {
        assert_eq!(world::run(seed, false), world::run(seed, false));
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")))
}
