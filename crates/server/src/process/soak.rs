//! A day under load, in minutes: does the control plane need more memory or disk at the end than in
//! the morning?
//!
//! The whole control plane runs, except for its listener and its two threads: routes, driver,
//! writer, SQLite, lanes, the clients of Ray and their connections, against fake clusters.
//! Everything runs on one thread with tokio's paused clock: when there is nothing to do, the clock
//! jumps to the next timer. So a day takes as long as its work, and no time passes during work. A
//! simulation of the lanes around the driver would be quicker, but leaks are seldom in the parts
//! that it would cover: they are in connections, tasks, waiters, buffers.
//!
//! The load depends only on the hour. The order in which sockets answer depends on the kernel.
//!
//! `make soak` runs a day; `make test` half an hour, with everything that is retained scaled down
//! likewise, so that both reach every bound in the first quarter. Only on Linux, because it reads
//! `/proc`.

mod gauge;
mod people;
mod world;

use std::{env, process::Command, time::Duration};

use gauge::Gauges;
use people::People;
use world::World;

const AN_HOUR: u64 = 3600;
const A_DAY: u64 = 24 * AN_HOUR;
/// The number of samples, however long the run is.
const SAMPLES: u64 = 96;

#[test]
fn a_day_under_load_ends_with_the_memory_and_the_disk_it_began_with() {
    // In a process of its own, so that the memory of other tests does not count.
    let status = Command::new(env::current_exe().unwrap())
        .args(["process::soak::hours", "--exact", "--ignored", "--nocapture"])
        // Each thread would have a heap of its own, which fills up to where it once was: no leak.
        .env("MALLOC_ARENA_MAX", "1")
        .status();
    assert!(status.unwrap().success(), "see above");
}

#[test]
#[ignore = "the test above runs it, in a process of its own"]
fn hours() {
    let hours = env::var("SOAK_HOURS").map(|text| text.parse::<u64>().expect("SOAK_HOURS is a number"));
    let seconds = hours.map_or(AN_HOUR / 2, |hours| hours * AN_HOUR);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(soak(seconds));
}

async fn soak(seconds: u64) {
    let world = World::start(seconds).await;
    let mut people = People::new(world.clone());
    let mut gauges = Gauges::new(&world);
    let mut clock = tokio::time::interval(Duration::from_secs(1));
    for second in 0..seconds {
        clock.tick().await;
        world.have_accidents(second).await;
        people.do_their_part(second);
        if (second + 1) % (seconds / SAMPLES) == 0 {
            gauges.sample(&world, second + 1).await;
        }
    }
    people.go_home().await;
    world.wait_until_idle().await;
    gauges.report(seconds, people.answers());
    people.check_answers();
    world.check_ends().await;
    world.check_history(seconds).await;
    gauges.check();
}
