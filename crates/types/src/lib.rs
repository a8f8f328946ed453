//! Plain data shared by every part of the control plane.
//!
//! Nothing here decides, waits or talks to anything. Values are checked when they
//! are built (parse, don't validate): a [`JobId`] that exists is a legal one, a
//! [`Quantity`] is never NaN or negative, and a [`State`] only changes through a
//! named [`Transition`].

mod cluster;
mod decision;
mod id;
mod message;
mod payload;
mod reason;
mod resources;
pub mod settings;
mod snapshot;
mod state;
mod time;
mod work;

pub use cluster::{ClusterSpec, Connection, Limits, RuntimeEnv, Secret, SpecError, Weight};
pub use decision::{Decision, Verdict};
pub use id::{
    Attempt, ClusterName, GroupId, IdError, Incarnation, JobId, Owner, PolicyName, ResourceName,
    SubmissionId, Tag,
};
pub use message::Message;
pub use payload::{EntrypointResources, Payload};
pub use reason::{Reason, ReasonKind};
pub use resources::{Dimension, Quantity, QuantityError, Resources, ResourcesError};
pub use settings::{PolicyRule, PolicySpec, Settings, Share};
pub use snapshot::{HeadMemory, Load, Snapshot};
pub use state::{ImpossibleTransition, State, Transition};
pub use time::{Span, SpanError, Timestamp};
pub use work::{
    ContentHash, Kind, OnClusterLoss, Origin, Preference, Priority, Retry, Tags, TagsError, Versions, Work,
};
