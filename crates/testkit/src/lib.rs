//! Fake Ray dashboards with injectable faults.
//!
//! A [`FakeRay`] answers like the dashboard of a Ray 2.60 head: the same paths, JSON shapes,
//! error texts and oddities (a PENDING job that cannot be stopped, a package that must be there
//! before the job is, …), recorded from real ones. Nothing is run: a job's life follows from its
//! entrypoint text, so `sleep 2 && exit 3` is RUNNING for two seconds and then FAILED with exit
//! code 3. See [`Plan`].
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use multicluster_testkit::{Endpoint, FakeOptions, FakeRay, Fault};
//!
//! let fake = FakeRay::start(FakeOptions::new("mac").cpus(8.0).gpus(1.0)).await;
//! // The next submit creates the job, but its caller never gets the answer.
//! fake.fault_next(Endpoint::Submit, Fault::ResetAfter, 1);
//! # let _ = fake.url();
//! # }
//! ```
//!
//! [`FakeFleet`] puts many fakes behind one listener, each under its own path prefix. A fake has
//! no task of its own and no timers: jobs advance when the state is accessed, so a hundred idle
//! fakes cost nothing.

mod advance;
mod autoscaler;
mod clock;
mod cluster;
mod fake;
mod fault;
mod fleet;
mod job;
mod node;
mod options;
mod plan;
mod request;
mod route;
mod serve;
mod state;
mod status;
mod tail;
mod view;

pub use autoscaler::FakeAutoscaler;
pub use fake::FakeRay;
pub use fault::{Endpoint, Fault};
pub use fleet::FakeFleet;
pub use job::{FakeJob, JobStatus, Submission};
pub use node::FakeNode;
pub use options::FakeOptions;
pub use plan::Plan;
