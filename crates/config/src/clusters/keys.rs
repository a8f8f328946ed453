//! Every key of a cluster, declared once: the reader and the docs use this table.

/// A key of a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterKey {
    pub(crate) name: &'static str,
    /// What may be written.
    pub(crate) expected: &'static str,
    /// What it is when nobody says anything; `None` where it must be given.
    pub(crate) default: Option<&'static str>,
    pub(crate) example: &'static str,
    pub(crate) doc: &'static str,
}

pub(crate) const KEYS: &[ClusterKey] = &[
    ClusterKey {
        name: "name",
        expected: "letters, digits, `_`, `.` and `-`",
        default: None,
        example: "centos",
        doc: "Its name in the pool.",
    },
    ClusterKey {
        name: "head_address",
        expected: "`host:port` or `ray://host:port`",
        default: None,
        example: "192.168.5.7:10001",
        doc: "Ray Client address, for tasks and actors submitted from outside. Jobs and monitoring never use it.",
    },
    ClusterKey {
        name: "dashboard",
        expected: "an `http://` or `https://` URL",
        default: None,
        example: "http://192.168.5.7:8265",
        doc: "The dashboard, whose REST API runs and watches jobs.",
    },
    ClusterKey {
        name: "prefer",
        expected: "true or false",
        default: Some("false"),
        example: "true",
        doc: "Wanted more than others of the same weight.",
    },
    ClusterKey {
        name: "weight",
        expected: "a number from 0 to 1000000",
        default: Some("1.0"),
        example: "1.2",
        doc: "How much it is wanted; see the `weighted_preference` policy.",
    },
    ClusterKey {
        name: "tags",
        expected: "a list of words",
        default: Some("[]"),
        example: "[linux, x86_64]",
        doc: "What it carries. Work that asks for a tag which some cluster carries goes only to such clusters.",
    },
    ClusterKey {
        name: "runtime_env",
        expected: "a mapping, as Ray takes it",
        default: Some("{}"),
        example: "{conda: ts}",
        doc: "The base of every runtime_env that runs here; a job's own is laid on top. \
              `env_vars.home_dir` is this cluster's home directory: paths are translated to it.",
    },
    limit("resource_threshold", "0.8"),
    limit("submission_interval", "10s"),
    limit("execution_mode", "serial"),
    limit("max_running_jobs", "4"),
];

/// A setting of which a cluster may have its own value.
const fn limit(name: &'static str, example: &'static str) -> ClusterKey {
    ClusterKey {
        name,
        expected: "as in `scheduler:`",
        default: Some("as in `scheduler:`"),
        example,
        doc: "This cluster's own value of the setting.",
    }
}
