//! The scheduler's behaviour, rule by rule, through its public interface.

#![allow(unreachable_pub, reason = "a test binary exports nothing")]

mod attempts;
mod bad_input;
mod clock;
mod elastic;
mod env;
mod explain;
mod head_safety;
mod heads;
mod needs;
mod nodes;
mod operate;
mod placements;
mod policies;
mod preemption;
mod prototype_failures;
mod queues;
mod regressions;
mod retry;
mod rewound;
mod rules;
mod sharing;
mod tags;
mod unauthorized;
mod unsuited;
