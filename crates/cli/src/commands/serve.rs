//! `ray-multicluster serve`: the control plane itself.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use multicluster_server::{LogFormat, Options, Shared, Span, TlsFiles, Tokens};
use multicluster_types::{Owner, env_vars};

/// The file of tokens in a state directory.
pub(super) const TOKENS: &str = "tokens.json";
/// The token of the user who runs the control plane, in a state directory.
pub(crate) const OWN_TOKEN: &str = "own-token";
/// A thread for blocking work ends when it had nothing to do for so long.
const IDLE_THREAD: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The clusters and settings [default: $CLUSTER_CONFIG_FILE, or cluster.yaml here, in
    /// ~/.ray_scheduler or in /etc/ray_scheduler].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen; port 0 picks a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8700")]
    listen: SocketAddr,
    /// Where jobs, history and packages are kept [default: ~/.ray_scheduler/state].
    #[arg(long, value_name = "DIR", env = env_vars::STATE_DIR)]
    state_dir: Option<PathBuf>,
    /// Share the state with other replicas in a PostgreSQL database, postgres://user@host/db: one of
    /// them leads, and another takes over when it ends. Then the state directory holds only copies.
    #[arg(long, value_name = "URL", env = env_vars::STORE, hide_env_values = true, conflicts_with_all = ["own_token", "exit_when_idle"])]
    store: Option<String>,
    /// The address at which other replicas reach this one [default: the one it listens on].
    #[arg(long, value_name = "URL", requires = "store")]
    advertise: Option<String>,
    /// Refuse a database that holds another control plane than this one.
    #[arg(long, value_name = "NAME", requires = "store")]
    plane: Option<String>,
    /// A host name that requests may use, such as ray.example.com; repeat for more. Requests
    /// with another name (except localhost) are refused, which keeps out web pages of other sites.
    #[arg(long = "host", value_name = "NAME")]
    names: Vec<String>,
    /// Serve TLS with this certificate chain (PEM); read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The file of accepted tokens, which must have at least one; see `ray-multicluster token`
    /// [default: tokens.json in the state directory; without tokens anyone has full access].
    #[arg(long, value_name = "FILE", env = env_vars::TOKENS)]
    tokens: Option<PathBuf>,
    /// Encrypt the secrets in the state directory with the keys in this file; see `ray-multicluster
    /// key` [default: they are stored in plain text].
    #[arg(long, value_name = "FILE", env = env_vars::KEY_FILE)]
    key_file: Option<PathBuf>,
    /// Require tokens, and keep one for you in the file own-token in the state directory, where
    /// the SDK and the commands of this program find it.
    #[arg(long)]
    own_token: bool,
    /// Listen on an address that other machines can reach, without any protection.
    #[arg(long)]
    insecure: bool,
    /// Exit after this long without jobs and requests: 10m, 90s.
    #[arg(long, value_name = "DURATION")]
    exit_when_idle: Option<Span>,
    /// The format of log lines: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text", env = env_vars::LOG_FORMAT)]
    log_format: LogFormat,
    /// What is logged: error, warn, info, debug, or a filter per module.
    #[arg(long, value_name = "FILTER", default_value = "info", env = env_vars::LOG)]
    log: String,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    multicluster_server::start_logging(args.log_format, &args.log)?;
    let state_dir = state_dir(args.state_dir)?;
    let config = find_config(args.config.as_deref())?;
    let tls = args.tls_cert.zip(args.tls_key).map(|(cert, key)| TlsFiles { cert, key });
    let needs_tokens = args.own_token || args.tokens.is_some();
    let tokens = args.tokens.unwrap_or_else(|| state_dir.join(TOKENS));
    if args.own_token {
        Tokens::own(&tokens, &state_dir.join(OWN_TOKEN), this_user())?;
    }
    let options = Options {
        config,
        listen: args.listen,
        names: args.names,
        tls,
        needs_tokens,
        only_tokens: args.own_token,
        tokens,
        shared: args.store.map(|database| Shared { database, advertise: args.advertise, plane: args.plane }),
        state_dir,
        key_file: args.key_file,
        insecure: args.insecure,
        exit_when_idle: args.exit_when_idle,
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // With tokio's ten seconds, regular work keeps all threads of a past burst alive.
    let runtime = runtime.enable_all().thread_keep_alive(IDLE_THREAD).build()?;
    runtime.block_on(multicluster_server::serve(options))
}

/// The owner of this user's work: their name, or their number if the name is not known.
fn this_user() -> Owner {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let number = format!("uid-{}", rustix::process::getuid().as_raw());
    let mut owners = named.filter_map(|name| Owner::new(&name).ok());
    owners.next().unwrap_or_else(|| Owner::new(&number).expect("letters, a hyphen and digits"))
}

/// The given directory, or the default of this user.
pub(super) fn state_dir(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(dir) = given {
        return Ok(dir);
    }
    let home = std::env::var_os("HOME").context("no HOME: say --state-dir")?;
    Ok(PathBuf::from(home).join(".ray_scheduler/state"))
}

fn find_config(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let env: Vec<_> = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect();
    let here = std::env::current_dir()?;
    Ok(multicluster_config::find(given, env, &here)?)
}
