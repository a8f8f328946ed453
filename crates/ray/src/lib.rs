//! A typed client of one Ray dashboard.
//!
//! [`RayClient`] connects to exactly one address: the Jobs API, packages, logs, and the facts
//! that a scheduler needs ([`Facts`]). It opens no Ray Client connection, follows no redirect,
//! uses no proxy from the environment, and never tries another port.
//!
//! Every failure is a [`RayError`] that says whether asking again may help
//! ([`Class::Transient`]), cannot help ([`Class::Permanent`]), or whether the request may have
//! been carried out although no usable answer came ([`Class::OutcomeUnknown`]). The client never
//! retries, because only the caller knows whether a retry is safe, with one exception: a request
//! that was refused for its token is sent again if there is another token by then.
//!
//! All data from the other side is limited in size and time, and none of it is trusted.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use multicluster_ray::{Endpoint, RayClient, SubmitRequest, Timeouts};
//!
//! let ray = RayClient::new(&Endpoint::new("http://127.0.0.1:8265"), Timeouts::default())?;
//! let job = SubmitRequest::new("nightly-1", "python train.py");
//! match ray.submit(&job).await {
//!     Ok(id) => println!("accepted as {id}"),
//!     Err(error) if error.may_have_arrived() => println!("{:?}", ray.job("nightly-1").await?),
//!     Err(error) => println!("{error}"),
//! }
//! # Ok(()) }
//! ```

mod answer;
mod autoscaler;
mod client;
mod command;
mod credentials;
mod driver_log;
mod endpoint;
mod error;
mod facts;
#[cfg(test)]
mod hostile;
mod job;
mod list;
mod logs;
mod package;
mod pending;
mod recall;
mod secrets;
mod tail;
mod transport;

pub use client::{RayClient, Version};
pub use endpoint::{BuildError, Endpoint, Timeouts};
pub use error::{Call, Class, Kind, RayError};
pub use facts::{Facts, NodeFacts};
pub use job::{DriverInfo, JobDetails, JobKind, JobList, JobStatus, SubmitRequest, Unread};
pub use logs::Logs;
pub use package::{MAX_PACKAGE_BYTES, PackageBody};
pub use pending::Pending;
pub use recall::Recalled;
pub use tail::LogTail;
