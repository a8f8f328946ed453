//! The driver and its lanes over fake Ray clusters that misbehave.

mod clusters;
mod dispatch;
mod ids;
mod restart;
mod world;
