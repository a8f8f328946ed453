//! Every key of a cluster, declared once: the reader and the docs use this table.

/// A key of a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterKey {
    pub(crate) name: &'static str,
    /// The allowed values.
    pub(crate) expected: &'static str,
    /// The default; `None` if the key is required.
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
        doc: "Preferred over clusters of the same weight.",
    },
    ClusterKey {
        name: "weight",
        expected: "a number from 0 to 1000000",
        default: Some("1.0"),
        example: "1.2",
        doc: "A higher weight scores better; see the `weighted_preference` policy.",
    },
    ClusterKey {
        name: "tags",
        expected: "a list of words",
        default: Some("[]"),
        example: "[linux, x86_64]",
        doc: "Its tags. A job with a tag that some cluster has runs only on clusters with that tag.",
    },
    ClusterKey {
        name: "runtime_env",
        expected: "a mapping, as Ray accepts it",
        default: Some("{}"),
        example: "{conda: ts}",
        doc: "The base of every runtime_env on this cluster; a job's own is merged into it. \
              `env_vars.home_dir` is this cluster's home directory if `home_dir` is not given. \
              A variable may be read from elsewhere: `NAME: {file: PATH}`, which is read again when the file \
              changes, or `NAME: {env: VARIABLE}`; it is then always redacted.",
    },
    ClusterKey {
        name: "elastic",
        expected: "a mapping with `max`, `node` and `within`",
        default: Some("none: it has what it has"),
        example: "{max: {CPU: 64, GPU: 8}, node: {CPU: 16, GPU: 1}, within: 10m}",
        doc: "How far its autoscaler can make it grow: `max` is what the whole cluster can have, its head \
              included, `node` what one more node brings, and `within` (10m) how long work waits there for the \
              cluster to grow. [Elastic clusters](elastic.md).",
    },
    ClusterKey {
        name: "home_dir",
        expected: "an absolute path",
        default: Some("`env_vars.home_dir` of `runtime_env`, or none"),
        example: "/home/zorro",
        doc: "The home directory on this cluster. Paths of a job below another cluster's home, or \
              the submitter's, are translated to it.",
    },
    ClusterKey {
        name: "inject_sdk",
        expected: "true or false",
        default: Some("jobs submitted by the SDK do"),
        example: "true",
        doc: "Whether jobs on this cluster get the Python SDK, as a `py_modules` entry before everything in \
              `PYTHONPATH`. A job that was submitted by the SDK gets the same version; \
              `false` turns that off, and `true` gives all other jobs the control plane's own copy.",
    },
    ClusterKey {
        name: "plane_address",
        expected: "an `http://` or `https://` URL, or several with commas in between",
        default: Some("none"),
        example: "http://192.168.5.1:8700",
        doc: "Where jobs, tasks and actors on this cluster reach the control plane, one address for each of \
              its replicas; they find it in `RAY_MULTICLUSTER_ADDRESS`.",
    },
    ClusterKey {
        name: "token",
        expected: "a bearer token, without `Bearer`",
        default: Some("none"),
        example: "…",
        doc: "Sent to the dashboard as `Authorization: Bearer …`, as Ray's token authentication and \
              most proxies expect it. Never shown.",
    },
    ClusterKey {
        name: "token_env",
        expected: "the name of an environment variable",
        default: Some("none"),
        example: "CENTOS_TOKEN",
        doc: "Where the token is, instead of `token`. The variable must be set.",
    },
    ClusterKey {
        name: "token_file",
        expected: "a path; relative ones begin at the folder of the file",
        default: Some("none"),
        example: "~/.ray/auth_token",
        doc: "Where the token is, instead of `token`. Read again when the file changes, and when the cluster \
              refuses the token: a token that is replaced in its file costs no job.",
    },
    ClusterKey {
        name: "token_command",
        expected: "a list: a program and its arguments",
        default: Some("none"),
        example: "[kubectl, create, token, ray]",
        doc: "Prints the token, instead of `token`. Run without a shell, for at most 10 s. Its output is used until \
              the token ends (the `exp` of a JWT; 5 minutes for any other token), and the command is run again \
              when the cluster refuses it. A program with a `/` is a path, which begins at the folder of the \
              file if it is relative; any other name is looked up in `PATH`.",
    },
    ClusterKey {
        name: "headers",
        expected: "a mapping of names to texts",
        default: Some("{}"),
        example: "{X-Team: quant}",
        doc: "More headers for every request to the dashboard, for a proxy in front of it. Never shown. \
              A value may be `{file: PATH}`, which is read again like a `token_file`, or `{env: VARIABLE}`.",
    },
    ClusterKey {
        name: "ca_file",
        expected: "a path; relative ones begin at the folder of the file",
        default: Some("none"),
        example: "/etc/ssl/ray-ca.pem",
        doc: "Certificate authorities (PEM) to trust for an `https://` dashboard instead of the usual ones.",
    },
    ClusterKey {
        name: "insecure_tls",
        expected: "true or false",
        default: Some("false"),
        example: "true",
        doc: "Accepts any certificate. For trials only: anyone on the network path can read the token.",
    },
    limit("resource_threshold", "0.8"),
    limit("submission_interval", "10s"),
    limit("execution_mode", "serial"),
    limit("max_running_jobs", "4"),
    limit("driver_memory", "250MB"),
    limit("head_memory_share", "0.7"),
];

/// A setting that can be overridden per cluster.
const fn limit(name: &'static str, example: &'static str) -> ClusterKey {
    ClusterKey {
        name,
        expected: "as in `scheduler:`",
        default: Some("as in `scheduler:`"),
        example,
        doc: "This cluster's own value of the setting.",
    }
}
