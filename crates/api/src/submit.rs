//! Submitting jobs.

use std::{collections::BTreeMap, fmt};

use multicluster_types::{Resources, RuntimeEnv, Span};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, SeqAccess, Visitor},
};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{ErrorBody, schema};

/// A request of work: its own fields, then those that say where and in which order it is placed.
macro_rules! request {
    ($(#[$about:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[serde_with::skip_serializing_none]
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($own)*
            /// The cluster it should run on.
            pub preferred_cluster: Option<String>,
            /// It may run on that cluster only, even if the cluster is down.
            #[serde(default, skip_serializing_if = "crate::submit::is_false")]
            pub required: bool,
            /// Tags that some cluster has decide where it runs; others are labels.
            #[serde(default, deserialize_with = "crate::submit::or_default", skip_serializing_if = "Vec::is_empty")]
            #[schema(nullable)]
            pub tags: Vec<String>,
            /// The operating system of its cluster: `linux`, `macos`.
            pub os: Option<String>,
            /// The processor architecture of its cluster: `x86_64`, `arm64`.
            pub arch: Option<String>,
            /// A higher priority goes first; default 0.
            pub priority: Option<i32>,
            /// What happens if its cluster is lost: `wait` (default) never runs it twice, `requeue` runs it on another cluster.
            #[schema(schema_with = crate::schema::own_on_cluster_loss)]
            pub on_cluster_loss: Option<multicluster_types::OnClusterLoss>,
            /// The job it is submitted from.
            pub parent_job: Option<String>,
            /// The cluster that job runs on.
            pub parent_cluster: Option<String>,
        }
    };
}

pub(crate) use request;

request! {
    /// A job. The fields that Ray's own submit request has are named as there.
    #[derive(Default)]
    pub struct JobRequest {
        /// Its id; generated if absent. Submitting the same id and content again
        /// is the same job.
        #[serde(alias = "submission_id")]
        #[schema(example = "nightly-2026-11-16")]
        pub id: Option<String>,
        /// The shell command.
        #[schema(example = "python train.py")]
        pub entrypoint: String,
        /// The job's own runtime_env, merged into its cluster's.
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "RuntimeEnv::is_empty")]
        #[schema(schema_with = schema::own_runtime_env)]
        pub runtime_env: RuntimeEnv,
        /// Folders of the submitter's machine, up to 64, and the uploaded package that replaces
        /// each: wherever the job's runtime_env or its cluster's names such a path as
        /// `working_dir` or in `py_modules`, the package is used.
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
        #[schema(nullable, example = json!({"/home/zorro/quant": "gcs://_ray_pkg_0123456789abcdef.zip"}))]
        pub packages: BTreeMap<String, String>,
        /// The uploaded package (`gcs://….zip`) of the Python SDK that the submitting program uses:
        /// what the job imports, except on a cluster with `inject_sdk: false`.
        #[schema(example = "gcs://_ray_pkg_fedcba9876543210.zip")]
        pub sdk: Option<String>,
        /// The caller's own; `multicluster.*` keys mean the same as the fields below.
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
        #[schema(nullable)]
        pub metadata: BTreeMap<String, String>,
        /// What must be free on its cluster, over all its nodes, and belongs to the job while it runs: for
        /// the tasks and actors that it starts. Its driver reserves nothing of it.
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Resources::is_empty")]
        #[schema(schema_with = schema::demand)]
        pub needs: Resources,
        /// CPUs that Ray reserves for the entrypoint itself, on one node.
        pub entrypoint_num_cpus: Option<f64>,
        /// GPUs, likewise.
        pub entrypoint_num_gpus: Option<f64>,
        /// Bytes, likewise.
        #[schema(format = "uint64", maximum = 18_446_744_073_709_551_615_u64)]
        pub entrypoint_memory: Option<u64>,
        /// Custom resources, likewise.
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
        #[schema(nullable)]
        pub entrypoint_resources: BTreeMap<String, f64>,
        /// Which nodes of its cluster it may run on.
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
        #[schema(nullable)]
        pub entrypoint_label_selector: BTreeMap<String, String>,
        /// The submitter's home directory: paths below it are translated for the cluster.
        pub home: Option<String>,
        /// How many times it is retried after it ran and failed; default 0.
        #[schema(format = Int64, maximum = 4_294_967_295_u32)]
        pub max_retries: Option<u32>,
        /// Retry only if its exit code is one of these, up to 32; empty: any exit code. Needs
        /// `max_retries`.
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
        #[schema(schema_with = schema::own_retry_on)]
        pub retry_on: Vec<i64>,
        /// Do not retry if its exit code is one of these, up to 32. Needs `max_retries`.
        #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
        #[schema(schema_with = schema::own_never_retry_on)]
        pub never_retry_on: Vec<i64>,
        /// It may be stopped to make room for other work, and is run again later under its id.
        #[serde(default, skip_serializing_if = "is_false")]
        pub preemptible: bool,
        /// How long it may take to end when it is stopped, before it is killed: `10m`, or a number
        /// of seconds, up to 24 hours. Default: 30 s if it is preemptible, else as Ray does (3 s).
        #[serde(default, with = "length")]
        #[schema(schema_with = schema::stop_grace)]
        pub stop_grace: Option<Span>,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

/// `null` is as good as nothing: Ray's own clients send it.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A length of time: a text such as `10m`, or a number of seconds.
mod length {
    use std::fmt;

    use multicluster_types::Span;
    use serde::{
        Deserializer, Serializer,
        de::{Error, Visitor},
    };

    #[expect(clippy::ref_option, reason = "serde wants it")]
    pub(super) fn serialize<S: Serializer>(length: &Option<Span>, to: S) -> Result<S::Ok, S::Error> {
        match length {
            Some(length) => to.collect_str(length),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
        struct Length;

        impl<'de> Visitor<'de> for Length {
            type Value = Option<Span>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time such as \"10m\", or a number of seconds")
            }

            fn visit_unit<E: Error>(self) -> Result<Option<Span>, E> {
                Ok(None)
            }

            fn visit_none<E: Error>(self) -> Result<Option<Span>, E> {
                Ok(None)
            }

            fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Option<Span>, D::Error> {
                from.deserialize_any(self)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Option<Span>, E> {
                text.parse().map(Some).map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, seconds: u64) -> Result<Option<Span>, E> {
                self.visit_str(&seconds.to_string())
            }

            fn visit_i64<E: Error>(self, seconds: i64) -> Result<Option<Span>, E> {
                self.visit_str(&seconds.to_string())
            }

            fn visit_f64<E: Error>(self, seconds: f64) -> Result<Option<Span>, E> {
                self.visit_str(&seconds.to_string())
            }
        }
        from.deserialize_any(Length)
    }
}

/// An accepted job.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// Its id.
    pub id: String,
    /// Set if the job was submitted before.
    pub duplicate: Option<Duplicate>,
    /// All notices in one text, for clients that do not read `notices`.
    pub notice: Option<String>,
    /// What the caller may not have meant: that no cluster is large enough, or that a tag looks
    /// mistyped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// Why an accepted job is not a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Duplicate {
    /// The same id with the same content.
    SameId,
    /// No id was given, and an identical job is still queued.
    SameContent,
}

/// Many jobs in one request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// Up to 10,000, accepted or refused each on its own.
    #[serde(deserialize_with = "items")]
    pub jobs: Vec<JobRequest>,
}

/// The result of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchAnswer {
    /// How many were accepted, duplicates included.
    pub accepted: usize,
    /// How many were refused.
    pub refused: usize,
    /// One for each item, in order.
    pub results: Vec<BatchItem>,
}

/// The result of one item: an id, or an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum BatchItem {
    /// It was accepted.
    Accepted(Accepted),
    /// It was refused.
    Refused {
        /// The error.
        error: ErrorBody,
    },
}

/// The most items of one batch.
pub(crate) const MAX_ITEMS: usize = 10_000;

impl BatchRequest {
    /// The most jobs of one request.
    pub const MAX: usize = MAX_ITEMS;
}

/// A list that says which of its items cannot be read, and ends where it is too long.
pub(crate) fn items<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    struct Items<T>(std::marker::PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut items = Vec::new();
            loop {
                let number = items.len();
                match list.next_element() {
                    Ok(Some(_)) if number == MAX_ITEMS => {
                        return Err(A::Error::custom(format!("more than {MAX_ITEMS} in one request")));
                    }
                    Ok(Some(item)) => items.push(item),
                    Ok(None) => return Ok(items),
                    Err(error) => return Err(A::Error::custom(format!("item {number}: {error}"))),
                }
            }
        }
    }
    from.deserialize_seq(Items(std::marker::PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_rays_own_client_is_a_job() {
        let sent = r#"{"entrypoint": "x", "submission_id": "a", "runtime_env": null, "metadata": null,
            "entrypoint_num_cpus": 1, "entrypoint_memory": null, "entrypoint_resources": {"tpu": 0.5}}"#;
        let job: JobRequest = serde_json::from_str(sent).unwrap();
        assert_eq!((job.id.as_deref(), job.entrypoint_num_cpus), (Some("a"), Some(1.0)));
        let again: JobRequest = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
        assert_eq!(again, job);
    }

    #[test]
    fn a_length_of_time_is_a_text_or_a_number_of_seconds() {
        let read = |grace: &str| {
            let sent = format!("{{\"entrypoint\": \"x\", \"stop_grace\": {grace}}}");
            serde_json::from_str::<JobRequest>(&sent).map(|job| job.stop_grace)
        };
        for (given, grace) in [
            ("\"10m\"", Some(Span::minutes(10))),
            ("90", Some(Span::seconds(90))),
            ("0.5", Some(Span(500))),
            ("null", None),
        ] {
            assert_eq!(read(given).unwrap(), grace, "{given}");
        }
        for bad in ["\"soon\"", "-1", "1e300", "true", "[10]", "{}", "\"\""] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains("a length of time"), "{bad}: {error}");
        }
        let job = JobRequest { stop_grace: Some(Span::seconds(90)), ..JobRequest::default() };
        assert_eq!(serde_json::to_value(&job).unwrap()["stop_grace"], "90s");
        assert_eq!(serde_json::to_value(JobRequest::default()).unwrap().get("stop_grace"), None);
    }

    #[test]
    fn a_batch_says_which_item_cannot_be_read_and_where() {
        let sent = "{\"jobs\": [{\"entrypoint\": \"x\"},\n {\"entrypont\": \"y\"}]}";
        let error = serde_json::from_str::<BatchRequest>(sent).unwrap_err();
        assert!(
            error.to_string().starts_with("item 1: unknown field `entrypont`, expected one of"),
            "{error}"
        );
        assert_eq!(error.line(), 2);
    }
}
