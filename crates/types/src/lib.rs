//! Plain data shared by every part of the control plane.
//!
//! The types here make no decisions and do no I/O. Values are checked when they are built (parse,
//! don't validate): an existing [`JobId`] is valid, a [`Quantity`] is never NaN or negative, and
//! a [`State`] only changes through a named [`Transition`].

mod cluster;
mod decision;
mod elastic;
pub mod env_vars;
mod exit_codes;
mod hex;
mod id;
mod labels;
mod lang;
mod message;
mod near;
mod payload;
mod platform;
mod reason;
mod resources;
pub mod settings;
mod shares;
mod snapshot;
mod sso;
mod state;
mod time;
mod words;
mod work;

pub use cluster::{
    ClusterSpec, Connection, Credential, Limits, REDACTED, RuntimeEnv, Secret, SpecError, Weight, as_header,
    as_token, refuse_header,
};
pub use decision::{Decision, Verdict};
pub use elastic::{Autoscaler, Elastic};
pub use exit_codes::{ExitCodes, ExitCodesError, NotRetried, RetryCodes};
pub use hex::hex;
pub use id::{
    Attempt, ClusterName, GroupId, IdError, Incarnation, JobId, Owner, PolicyName, ResourceName,
    SubmissionId, Tag,
};
pub use labels::{LabelSelector, Labels, NODE_ID, SelectorError};
pub use lang::Lang;
pub use message::{CUT, Message, cut};
pub use near::Spellings;
pub use payload::{
    EntrypointResources, MAX_HOME, MAX_PACKAGE_NAME, Payload, is_file_name, is_package_name, usable_home,
};
pub use platform::{Platform, PlatformError, PlatformName};
pub use reason::{Reason, ReasonKind};
pub use resources::{Dimension, Quantity, QuantityError, Resources, ResourcesError};
pub use settings::{LogLimit, PolicyRule, PolicySpec, Settings, Share};
pub use shares::{BadShareWeight, ShareTerms, ShareWeight, Shares, SharesError};
pub use snapshot::{HeadMemory, Load, NodeShape, Snapshot};
pub use sso::{Jwks, JwtIssuer, Role, Roles, Sso, TrustedProxy};
pub use state::{ImpossibleTransition, State, Transition};
pub use time::{Span, SpanError, Timestamp};
pub use words::{CircuitKind, ClusterChangeKind, HealthKind, QueueKind, Source, VerdictKind};
pub use work::{
    ContentHash, Kind, OnClusterLoss, Origin, Preference, Priority, Retry, Tags, TagsError, Versions, Work,
};
