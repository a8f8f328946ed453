//! Start, reload, stop.

mod connections;
mod descriptors;
mod idle;
mod listen;
mod logging;
mod notice;
mod patience;
mod reload;
mod replica;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod soak;
mod tls;

use std::{
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use multicluster_config::Config;
use multicluster_core::{Core, Input};
use multicluster_store::{Keys, Opened, Packages, Reader, Sealing, StoreError, Trust};
use multicluster_types::Span;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};

pub use logging::{LogFormat, start_logging};
pub use tls::TlsFiles;

use self::{notice::Notice, replica::Joined};
use crate::{
    clock::Clock,
    clusters::lanes::{Lanes, Shared as LaneParts},
    engine::{
        driver::{self, Driver, Inbox, Parts, Running},
        events::Events,
        samples::Samples,
    },
    front::{
        access::{Access, TokenSource},
        advice::Adviser,
        bounds::Bounds,
        http,
        plane::Plane,
        reload::{self as configuration, Reloader},
        standing::Standing,
        usage::Usage,
    },
    metrics::Metrics,
    traces::{Exporter, Target},
};

/// The options of `serve`.
#[derive(Debug, Clone)]
pub struct Options {
    /// `cluster.yaml`.
    pub config: PathBuf,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The state directory.
    pub state_dir: PathBuf,
    /// The database that replicas share; `None`: the state is in the state directory.
    pub shared: Option<Shared>,
    /// The keys that encrypt the secrets that are stored; `None`: they are in plain text.
    pub key_file: Option<PathBuf>,
    /// Host names by which clients call this control plane, besides the address itself. If empty,
    /// any name is accepted, unless the address is a loopback address.
    pub names: Vec<String>,
    /// Use TLS with this certificate.
    pub tls: Option<TlsFiles>,
    /// The file of tokens.
    pub tokens: PathBuf,
    /// Refuse to start without tokens.
    pub needs_tokens: bool,
    /// Ignore single sign-on in the configuration: this control plane is for its user alone.
    pub only_tokens: bool,
    /// Give everyone who can reach the address full access.
    pub insecure: bool,
    /// Exit after being idle for this long.
    pub exit_when_idle: Option<Span>,
}

/// How this replica shares the state with others.
#[derive(Debug, Clone)]
pub struct Shared {
    /// `postgres://…`
    pub database: String,
    /// How other replicas reach this one; `None`: at the address it listens on.
    pub advertise: Option<String>,
    /// The name of the control plane; `None`: whichever the database holds.
    pub plane: Option<String>,
}

/// What outlives one leadership, besides the configuration and the state.
#[derive(Clone)]
pub(crate) struct Around {
    pub(crate) metrics: Metrics,
    pub(crate) bounds: Bounds,
    pub(crate) standing: Standing,
    pub(crate) clock: Clock,
    /// Until when this process leads; `None`: it is the only one.
    pub(crate) lead: Option<Trust>,
}

impl Around {
    /// Of the only process.
    pub(crate) fn alone(config: &Config) -> Self {
        let metrics = Metrics::default();
        let bounds = Bounds::new(descriptors::connections(), &config.settings, metrics.clone());
        Self { metrics, bounds, standing: Standing::only(), clock: Clock::new(), lead: None }
    }
}

/// A running control plane without a listener.
pub struct Started {
    /// The handle that routes use.
    pub plane: Plane,
    running: Running,
    traces: Option<Exports>,
}

/// Traces that are to be sent, or are being sent.
struct Exports {
    target: Target,
    /// The last event of the process before.
    newest: u64,
    running: JoinSet<()>,
}

/// Starts everything except the listener: the driver, and a lane for each cluster.
///
/// # Errors
/// When the state cannot be read, or a policy cannot be used.
pub fn start(config: Config, opened: Opened, config_path: Option<PathBuf>) -> anyhow::Result<Started> {
    let around = Around::alone(&config);
    start_within(config, opened, config_path, around, false)
}

/// The same, as one of several replicas. `rewound`: the database may have lost what was committed.
fn start_within(
    config: Config,
    opened: Opened,
    config_path: Option<PathBuf>,
    around: Around,
    rewound: bool,
) -> anyhow::Result<Started> {
    let Assembled { plane, mut parts, inbox, inputs, traces } =
        assemble(config, opened, config_path, around)?;
    parts.rewound = rewound;
    let newest = parts.next_event.saturating_sub(1);
    let running = driver::start(parts, inbox, inputs)?;
    let traces = traces.map(|target| Exports { target, newest, running: JoinSet::new() });
    Ok(Started { plane, running, traces })
}

/// All parts, ready to start.
pub(crate) struct Assembled {
    pub(crate) plane: Plane,
    pub(crate) parts: Parts,
    pub(crate) inbox: Inbox,
    /// The first inputs of the driver.
    pub(crate) inputs: Vec<Input>,
    /// `None`: traces are off.
    pub(crate) traces: Option<Target>,
}

/// Puts the parts together; nothing happens until the driver is started.
pub(crate) fn assemble(
    config: Config,
    mut opened: Opened,
    config_path: Option<PathBuf>,
    around: Around,
) -> anyhow::Result<Assembled> {
    let Around { metrics, bounds, standing, clock, lead } = around;
    let traces = Target::of(&config.settings.traces, |name| std::env::var(name).ok())?;
    let loaded = opened.store.load()?;
    let core = Core::rebuild(clock.now(), config.settings.clone(), loaded.durable)?;
    let events = Events::after(loaded.next_event.saturating_sub(1));
    let (driver, inbox) = Driver::new(metrics.clone(), lead.clone());
    bounds.set(&config.settings);
    let configured = configuration::applying(&config, config_path.as_deref());
    let id: Arc<str> = loaded.plane.into();
    let lanes = Lanes::new(LaneParts {
        engine: Arc::new(driver.clone()),
        reader: Arc::clone(&opened.own_reader),
        packages: Arc::clone(&opened.packages),
        clock: clock.clone(),
        metrics: metrics.clone(),
        trust: lead.unwrap_or_else(Trust::always),
        plane: Arc::clone(&id),
        traces: traces.is_some(),
    });
    let plane = Plane {
        reloader: Reloader::new(config_path, config, driver.clone(), bounds.clone()),
        driver,
        lanes: lanes.clone(),
        events: events.clone(),
        metrics: metrics.clone(),
        packages: opened.packages,
        id,
        standing,
        started_at: clock.now(),
        samples: Samples::default(),
        access: Access::open(),
        bounds,
        usage: Usage::new(),
        adviser: Adviser::default(),
        reader: opened.reader,
    };
    let parts = Parts {
        core,
        store: opened.store,
        disk: plane.driver.disk.clone(),
        clock: clock.clone(),
        next_event: loaded.next_event,
        lanes,
        events,
        metrics,
        rewound: false,
    };
    plane.samples.keep_taking(plane.driver.clone(), plane.metrics.clone(), clock, opened.own_reader);
    Ok(Assembled { plane, parts, inbox, inputs: vec![configured], traces })
}

impl Started {
    /// Sends traces of jobs, if the settings say where. The position is kept in this directory.
    pub fn send_traces(&mut self, state_dir: &Path) {
        let Some(Exports { target, newest, running }) = &mut self.traces else { return };
        let exporter = Exporter {
            target: target.clone(),
            reader: Arc::clone(&self.plane.reader),
            metrics: self.plane.metrics.clone(),
            plane: Arc::clone(&self.plane.id),
            file: state_dir.join("traces.position"),
            newest: *newest,
        };
        running.spawn(exporter.run(self.plane.events.watch()));
    }

    /// Commits everything and stops. Jobs on the clusters go on.
    ///
    /// # Errors
    /// When the last commit failed.
    pub async fn stop(self) -> Result<(), StoreError> {
        self.plane.lanes.close();
        self.plane.driver.stop().await;
        let running = self.running;
        let joined = tokio::task::spawn_blocking(move || running.join()).await;
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

/// The control plane of a replica that does not lead: it reads what the leader has stored.
fn standby(config: &Config, plane: &str, opened: Standby, around: &Around) -> Plane {
    let Around { metrics, bounds, standing, clock, .. } = around.clone();
    let driver = Driver::detached(metrics.clone());
    let id: Arc<str> = plane.into();
    let lanes = Lanes::new(LaneParts {
        engine: Arc::new(driver.clone()),
        reader: opened.own_reader,
        packages: Arc::clone(&opened.packages),
        clock: clock.clone(),
        metrics: metrics.clone(),
        trust: Trust::always(),
        plane: Arc::clone(&id),
        traces: false,
    });
    Plane {
        reloader: Reloader::new(None, config.clone(), driver.clone(), bounds.clone()),
        driver,
        lanes,
        events: Events::after(0),
        metrics,
        packages: opened.packages,
        id,
        standing,
        started_at: clock.now(),
        samples: Samples::default(),
        access: Access::open(),
        bounds,
        usage: Usage::new(),
        adviser: Adviser::default(),
        reader: opened.reader,
    }
}

/// What a replica reads while another one leads.
struct Standby {
    reader: Arc<dyn Reader>,
    own_reader: Arc<dyn Reader>,
    packages: Arc<dyn Packages>,
}

/// Serves until a signal arrives, or until the control plane has been idle for long enough.
///
/// # Errors
/// When the control plane cannot start, or the store fails for good.
pub async fn serve(options: Options) -> anyhow::Result<()> {
    let config = configuration::read(&options.config)?;
    let keys = options.key_file.as_deref().map(Keys::read).transpose()?.map(Arc::new);
    let tls = options.tls.as_ref().map(TlsFiles::acceptor).transpose()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listener = TcpListener::bind(options.listen)
        .await
        .with_context(|| format!("cannot listen on {}", options.listen))?;
    let address = listener.local_addr()?;
    let joined = match &options.shared {
        Some(shared) => {
            let url = url(scheme, address, &options);
            let joined = Joined::open(shared, (address, url), &options.state_dir, keys.clone()).await?;
            say_how_sealed(&joined.database.sealing().await?, options.key_file.as_deref());
            Some(joined)
        }
        None => None,
    };
    // A file that was named counts for this replica alone.
    let tokens = match &joined {
        Some(joined) if !options.needs_tokens => TokenSource::Table(joined.database.tokens()),
        _ => TokenSource::File(options.tokens.clone()),
    };
    let access = Access::by(&tokens, tls.is_some())?;
    if options.needs_tokens && !access.has_tokens() {
        bail!(
            "there is no token in {}\n  hint: create one with ray-multicluster token create --tokens {}",
            options.tokens.display(),
            options.tokens.display()
        );
    }
    if !options.only_tokens {
        let sign_on = access.sign_on(&config.sso);
        sign_on.with_context(|| format!("cannot use {}", options.config.display()))?();
    }
    check_protected(&options, &access)?;
    if let Some(joined) = joined {
        return replica::serve(options, joined, config, access, (listener, tls)).await;
    }
    let opened = open_state(&options.state_dir, keys)?;
    say_how_sealed(&opened.sealing, options.key_file.as_deref());
    Notice::take_down_old(&options.state_dir)?;
    let notice = Notice::of(&url(scheme, address, &options), &options.config)?.write(&options.state_dir)?;
    say_what_is_wrong(&config);
    let clusters = counted(config.clusters.len(), "cluster");
    let mut started = start(config, opened, Some(options.config.clone()))?;
    match options.only_tokens {
        true => started.plane.access = access,
        false => started.plane.guard_by(access),
    }
    started.send_traces(&options.state_dir);
    let plane = started.plane.clone();
    plane.driver.disk.keep_reserve(&options.state_dir);
    let jobs = counted(plane.driver.read(Core::job_count).await?, "job");
    let _watch = reload::watch(&options.config, plane.reloader.clone());
    let signal = stop_signal();
    let notice = notice.put_up()?;
    // A reader of our output that has gone is no reason to stop.
    drop(writeln!(
        std::io::stdout(),
        "ray-multicluster is ready at {scheme}://{address} ({clusters}, {jobs}, state in {})",
        options.state_dir.display()
    ));
    let stop = async {
        end(&plane, signal, options.exit_when_idle).await;
        // Before the listener closes, so that a program that finds the notice can connect.
        notice.take_down();
    };
    tokio::select! {
        () = listen::serve(listener, tls, http::router(plane.clone(), address, &options.names), &plane.bounds, stop) => {}
        () = failed(&started.running) => notice.take_down(),
    }
    started.stop().await.context("requests without an answer are lost; everything that was answered is kept")
}

/// At a start, where the file itself has no errors.
fn say_what_is_wrong(config: &Config) {
    config.warnings.iter().for_each(|warning| tracing::warn!(%warning, "configuration"));
    for error in configuration::refused(config) {
        tracing::error!(%error, "its clusters are left out until the file is valid");
    }
}

/// Anyone who can reach the address can run anything on the clusters, unless there are tokens or
/// single sign-on.
fn check_protected(options: &Options, access: &Access) -> anyhow::Result<()> {
    if options.listen.ip().is_loopback() || access.is_on() {
        return Ok(());
    }
    if !options.insecure {
        bail!(
            "{} can be reached from other machines, and anyone there could run anything on your clusters\n  \
             hint: create a token (ray-multicluster token create --owner NAME --role admin), \
             configure trusted_proxy or jwt, listen on 127.0.0.1, or pass --insecure if the network is yours alone",
            options.listen
        );
    }
    tracing::warn!(listen = %options.listen, "--insecure: anyone who can reach this address can run anything on the clusters");
    Ok(())
}

/// The URL for programs on this machine. With TLS it has the host name of the certificate.
fn url(scheme: &str, address: SocketAddr, options: &Options) -> String {
    match options.names.first().filter(|_| options.tls.is_some()) {
        Some(name) => format!("{scheme}://{name}:{}", address.port()),
        None => format!("{scheme}://{}", notice::reachable(address)),
    }
}

/// One control plane per directory; the error of a second one names the first one's address.
fn open_state(dir: &Path, keys: Option<Arc<Keys>>) -> anyhow::Result<Opened> {
    let options = multicluster_store::Options { keys, ..multicluster_store::Options::default() };
    let opened = multicluster_store::sqlite::open(dir, options);
    if let (Err(StoreError::InUse { path }), Some(Notice { address, pid, .. })) = (&opened, Notice::read(dir))
    {
        bail!(
            "{} is in use by the control plane at {address}, process {pid}\n  \
             hint: use that one, stop it, or choose another --state-dir",
            path.display()
        );
    }
    opened.with_context(|| format!("cannot use the state directory {}", dir.display()))
}

/// Whether a copy of the state would show secrets, and which keys are still needed.
fn say_how_sealed(sealing: &Sealing, file: Option<&Path>) {
    let (Some(key), Some(file)) = (&sealing.key, file) else {
        tracing::warn!(
            "secrets are stored in plain text; to encrypt them, run ray-multicluster key create FILE and \
             restart with --key-file FILE"
        );
        return;
    };
    if let Some(values) = sealing.resealed {
        tracing::info!(%key, values, "stored secrets are now encrypted with this key");
    }
    if let Some(error) = &sealing.leftovers {
        tracing::warn!(
            %error,
            "earlier values may remain in unused parts of state.db, because it could not be copied; the next \
             start will try again"
        );
    }
    for key in &sealing.unneeded {
        tracing::info!(
            %key,
            file = %file.display(),
            "nothing that is stored needs this key any more, except backups from its time; unless it is a new \
             one for later, its line may be removed"
        );
    }
}

/// Completes when the control plane should stop.
async fn end(plane: &Plane, signal: impl Future<Output = ()>, exit_when_idle: Option<Span>) {
    let unused = async {
        match exit_when_idle {
            Some(span) => idle::unused_for(plane, Duration::from_millis(span.0)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = signal => tracing::info!("shutting down; jobs on the clusters keep running"),
        () = unused => {
            let idle = exit_when_idle.unwrap_or_default();
            tracing::info!("shutting down: idle for {idle}");
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Completes when the driver ends because of a failure.
async fn failed(running: &Running) {
    while !running.has_ended() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// From the moment this returns, signals no longer end the process; the future ends with the first.
fn stop_signal() -> impl Future<Output = ()> {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async {
        let (Ok(mut terminate), Ok(mut interrupt)) = signals else { return std::future::pending().await };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}
