//! Seeded simulation: the real core among fake clusters that finish, fail, hang,
//! lie, lose contact, come back, drop, delay and duplicate answers, and with a
//! control plane that crashes between commit and effect. Every invariant is
//! checked after every step.
//!
//! `planes.rs` has several control planes over one log instead.
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
mod growth;
mod loops;
mod oracle;
mod plan;
mod planes;
mod preemption;
mod ray;
mod room;
mod sharing;
mod world;

use std::{
    panic::catch_unwind,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The number of seeds in `make test`: about a minute on two cores.
const DEFAULT_SEEDS: u64 = 3_000;
/// The same, with several control planes.
const DEFAULT_PLANES: u64 = 300;

#[test]
fn every_invariant_holds_in_thousands_of_seeded_worlds() {
    if let Some(seed) = number("SIM_SEED") {
        world::run(seed, true);
        return;
    }
    let steps = AtomicU64::new(0);
    let worlds = all_worlds(number("SIM_SEEDS").unwrap_or(DEFAULT_SEEDS), "SIM_SEED", |seed| {
        steps.fetch_add(world::run(seed, false), Ordering::Relaxed);
    });
    println!("{worlds} worlds, {} steps", steps.into_inner());
}

#[test]
fn every_invariant_holds_with_several_control_planes_over_one_log() {
    if let Some(seed) = number("PLANES_SEED") {
        println!("{:?}", planes::run(seed, true));
        return;
    }
    let all = Mutex::new(planes::Seen::default());
    let worlds = all_worlds(number("PLANES_SEEDS").unwrap_or(DEFAULT_PLANES), "PLANES_SEED", |seed| {
        let seen = planes::run(seed, false);
        all.lock().unwrap().add(seen);
    });
    let all = all.into_inner().unwrap();
    println!("{worlds} worlds of several control planes, {all:?}");
    assert!(worlds < 100 || all.is_complete(), "something never happens: {all:?}");
}

/// Runs this many seeds, or as many as the time allows. `variable` replays one.
fn all_worlds(seeds: u64, variable: &str, run: impl Fn(u64) + Sync + std::panic::RefUnwindSafe) -> u64 {
    let deadline = number("SIM_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let seeds = if deadline.is_some() { u64::MAX } else { seeds };
    let first = number("SIM_FIRST_SEED").unwrap_or(0);
    let (next, failed, done) = (AtomicU64::new(first), AtomicU64::new(u64::MAX), AtomicU64::new(0));
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
                    if catch_unwind(|| run(seed)).is_err() {
                        failed.fetch_min(seed, Ordering::Relaxed);
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let seed = failed.into_inner();
    assert!(
        seed == u64::MAX,
        "seed {seed} breaks an invariant (see above). Replay it with a trace:\n  \
         {variable}={seed} cargo test -p multicluster-core --test simulation every_invariant -- --nocapture"
    );
    done.into_inner()
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [1, 2, 3] {
        assert_eq!(world::run(seed, false), world::run(seed, false));
        assert_eq!(planes::run(seed, false), planes::run(seed, false));
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")))
}
