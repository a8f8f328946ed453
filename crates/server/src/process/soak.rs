//! A day under load, in minutes: does it need more memory or disk at the end than in the morning?
//!
//! The whole control plane runs, but for its listener and its two threads: routes, driver, writer,
//! SQLite, lanes, the clients of Ray and their connections, against fake clusters. All on one thread
//! whose clock is tokio's, held: when nobody has anything to do, it jumps to the next timer. So a day
//! is as long as its work, and no time passes while somebody works. Why not a simulation of the lanes
//! around the driver, which would be quicker still? What leaks is seldom what a simulation would
//! have: connections, tasks, waiters, buffers.
//!
//! The load depends on nothing but the hour, the order in which sockets answer on the kernel.
//!
//! `make soak` runs a day; `make test` half an hour, with all that is kept scaled down likewise, so
//! that every bound is reached in the first quarter in both. Only on Linux, whose `/proc` is asked.

mod gauge;
mod people;
mod world;

use std::{env, process::Command, time::Duration};

use gauge::Gauges;
use people::People;
use world::World;

const AN_HOUR: u64 = 3600;
const A_DAY: u64 = 24 * AN_HOUR;
/// So many samples are taken, however long it is.
const SAMPLES: u64 = 96;

#[test]
fn a_day_under_load_ends_with_the_memory_and_the_disk_it_began_with() {
    // In a process of its own: the memory of other tests is none of its business.
    let status = Command::new(env::current_exe().unwrap())
        .args(["soak::hours", "--exact", "--ignored", "--nocapture"])
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
    gauges.check();
}
