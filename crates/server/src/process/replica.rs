//! One of several replicas on one database: it stands by, leads, and stands by again, without a
//! restart of the process.
//!
//! ```text
//!            the lease of the leader ended, and we took the lead
//! stand by ───────────────────────────────────────────────────────▶ lead
//!    ▲                                                               │
//!    └──── another replica leads, or the database is gone for long ──┘
//!    ▲                                                               │
//!    └──── SIGTERM: commit everything, resign, never lead again ─────┘
//! ```

use std::{
    io::Write as _,
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use axum::{Router, http::Uri};
use multicluster_api::{Leader, ReplicaRole, ReplicaView};
use multicluster_config::Config;
use multicluster_store::{
    Keys, Opened, Sealing, Trust,
    postgres::{Database, Lead, Replica, Seat},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::{Notify, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::{
    Around, Options, Shared, Standby, Started, TlsFiles, counted, listen, notice::Notice, reload,
    say_what_is_wrong, standby, start_within, stop_signal, url,
};
use crate::{
    clock::Clock,
    front::{
        access::Access,
        bounds::Bounds,
        http::{self, Hosts},
        relay::{self, Peers, Relay},
        reload as configuration,
        standing::{Scene, Standing, this_process},
    },
    metrics::{Led, Metrics},
};

/// Longer than any lease.
const LEASE: Duration = Duration::from_millis(2500);
/// How often a replica looks who leads.
const LOOK: Duration = Duration::from_millis(150);
/// How often the leader looks who stands by.
const LOOK_AROUND: Duration = Duration::from_secs(1);
/// Before the next try to lead, after one that failed for a reason of our own.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// How long the ready line waits until it is known who leads.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// At the end, clients get this long to be served by the next leader, over this replica.
const NEXT_LEADER: Duration = Duration::from_secs(2);

/// One replica, whatever it does at the moment.
struct Member {
    database: Database,
    name: String,
    options: Options,
    listen: SocketAddr,
    advertised: String,
    /// The last one that was valid.
    config: Config,
    access: Access,
    around: Around,
    scenes: watch::Sender<Scene>,
    look: Arc<Notify>,
    /// Since when the database is another one than that of the last leadership.
    moved: Option<Instant>,
}

/// This replica on its database.
pub(super) struct Joined {
    pub(super) database: Database,
    name: String,
    advertised: String,
}

impl Joined {
    /// Connects. `url`: where this replica listens.
    pub(super) async fn open(
        shared: &Shared,
        (listen, url): (SocketAddr, String),
        state_dir: &Path,
        keys: Option<Arc<Keys>>,
    ) -> anyhow::Result<Self> {
        let advertised = advertised(shared.advertise.as_deref(), listen, url)?;
        let name = this_process();
        let me = Replica {
            name: name.clone(),
            address: advertised.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            plane: shared.plane.clone(),
        };
        let kept =
            multicluster_store::Options { cache: Some(state_dir.join("cache")), keys, ..Default::default() };
        let database = Database::open(&shared.database, kept, me).await.context("cannot use --store")?;
        Ok(Self { database, name, advertised })
    }
}

/// How other replicas reach this one.
fn advertised(given: Option<&str>, listen: SocketAddr, url: String) -> anyhow::Result<String> {
    let Some(given) = given else {
        if listen.ip().is_unspecified() {
            bail!(
                "{listen} does not say how other replicas reach this one\n  \
                 hint: pass --advertise http://NAME:{}, with a name or address of this machine",
                listen.port()
            );
        }
        return Ok(url);
    };
    let is_one = given.parse::<Uri>().is_ok_and(|url| {
        url.host().is_some() && matches!(url.scheme_str(), Some("http" | "https")) && url.path() == "/"
    });
    if !is_one {
        bail!("--advertise {given:?} is no address\n  hint: it looks like http://10.0.0.1:8700");
    }
    Ok(given.trim_end_matches('/').to_owned())
}

/// Serves until a signal arrives.
///
/// # Errors
/// When the replica cannot start.
pub(super) async fn serve(
    mut options: Options,
    joined: Joined,
    config: Config,
    access: Access,
    (listener, tls): (TcpListener, Option<TlsAcceptor>),
) -> anyhow::Result<()> {
    let listen = listener.local_addr()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let Joined { database, name, advertised } = joined;
    Notice::take_down_old(&options.state_dir)?;
    let notice = Notice::of(&url(scheme, listen, &options), &options.config)?.write(&options.state_dir)?;
    say_what_is_wrong(&config);
    let clusters = counted(config.clusters.len(), "cluster");

    // The other replicas use the name that we told them.
    let advertised_host = advertised.parse::<Uri>().ok().and_then(|url| url.host().map(str::to_owned));
    if !options.names.is_empty() || listen.ip().is_loopback() {
        options.names.extend(advertised_host);
    }
    let (scenes, watched) = watch::channel(Scene::unknown());
    let metrics = Metrics::default();
    let around = Around {
        bounds: Bounds::new(super::descriptors::connections(), &config.settings, metrics.clone()),
        metrics,
        standing: Standing::among(&name, watched.clone()),
        clock: Clock::new(),
        lead: None,
    };
    let look = Arc::new(Notify::new());
    let relay = Relay::new(relay::Parts {
        scenes: watched.clone(),
        local: local_routes(&database, &config, &access, &around, (listen, &options.names)),
        hosts: Hosts::at(listen, &options.names),
        peers: Peers::new(&name, certificates(options.tls.as_ref())?, access.clone())?,
        metrics: around.metrics.clone(),
        look: Arc::clone(&look),
    });
    let bounds = around.bounds.clone();
    let state_dir = options.state_dir.clone();
    let member = Member {
        database,
        name: name.clone(),
        options,
        listen,
        advertised,
        config,
        access,
        around,
        scenes,
        look,
        moved: None,
    };

    let stopped = stop_signal();
    // Only the leader reloads; SIGHUP must not end a follower.
    let _hangups = signal(SignalKind::hangup());
    let running = Running::start(member);
    let mut first = watched.clone();
    drop(timeout(FIRST_LOOK, first.wait_for(|scene| scene.leader.is_some())).await);
    let part = Standing::among(&name, watched.clone()).in_a_word();
    let notice = notice.put_up()?;
    drop(writeln!(
        std::io::stdout(),
        "ray-multicluster is ready at {scheme}://{listen} ({clusters}, replica {name}{part}, cache in {})",
        state_dir.display()
    ));
    let Running { mut task, leave } = running;
    let mut bug = Ok(());
    let stop = async {
        tokio::select! {
            () = stopped => {
                tracing::info!("shutting down; jobs on the clusters keep running");
                leave.leave(watched).await;
            }
            // It never returns.
            ended = &mut task => bug = ended,
        }
        notice.take_down();
    };
    listen::serve(listener, tls, relay.router(), &bounds, stop).await;
    task.abort();
    bug.context("this replica stopped because of a bug; start it again")
}

/// The loop of a replica, and how to end it.
struct Running {
    task: JoinHandle<()>,
    leave: Leave,
}

struct Leave {
    leaving: watch::Sender<bool>,
    left: watch::Receiver<bool>,
}

impl Running {
    fn start(member: Member) -> Self {
        let (leaving, told) = watch::channel(false);
        let (tell, left) = watch::channel(false);
        Self { task: tokio::spawn(member.run(told, tell)), leave: Leave { leaving, left } }
    }
}

impl Leave {
    /// Gives the lead up, if we have it, and waits until another replica has taken it.
    async fn leave(&self, mut scenes: watch::Receiver<Scene>) {
        let led = scenes.borrow().lead.is_some();
        self.leaving.send_replace(true);
        drop(self.left.clone().wait_for(|left| *left).await);
        if led {
            drop(timeout(NEXT_LEADER, scenes.wait_for(|scene| scene.leader.is_some())).await);
        }
    }
}

impl Member {
    async fn run(mut self, mut leaving: watch::Receiver<bool>, left: watch::Sender<bool>) {
        loop {
            let seat = self.look().await;
            let stays = !*leaving.borrow_and_update();
            self.moved =
                seat.as_ref().filter(|seat| seat.moved).map(|_| self.moved.unwrap_or_else(Instant::now));
            // A leader of before may trust for one more lease what this database has forgotten.
            let is_over = self.moved.is_none_or(|since| since.elapsed() > LEASE);
            if let Some(seat) = seat.filter(|seat| stays && seat.expired && is_over) {
                match self.database.take(&seat).await {
                    Ok(Some(lead)) => {
                        self.lead(lead, &mut leaving).await;
                        continue;
                    }
                    Ok(None) => {}
                    Err(error) => tracing::warn!(%error, "cannot take the lead"),
                }
            }
            if !stays {
                left.send_replace(true);
            }
            tokio::select! {
                () = sleep(LOOK) => {}
                () = self.look.notified() => {}
                _ = leaving.changed() => {}
            }
        }
    }

    /// Reads who leads, and shows it. `None`: the database does not answer.
    async fn look(&self) -> Option<Seat> {
        let seat = match self.database.seat().await {
            Ok(seat) => seat,
            Err(error) => {
                let behind = self.scenes.borrow().read_at.elapsed();
                tracing::debug!(%error, ?behind, "cannot read who leads");
                return None;
            }
        };
        // The database may say that we lead, before we are ready to, or when we do no longer.
        let leader = leader_of(&seat).filter(|leader| leader.replica != self.name);
        self.scenes.send_if_modified(|scene| {
            scene.read_at = Instant::now();
            scene.replicas = replicas_of(&seat);
            // While we lead, we say so: the database may not show it yet, or no longer.
            let news = scene.lead.is_none() && scene.leader != leader;
            if news {
                scene.leader = leader;
            }
            news
        });
        Some(seat)
    }

    /// Leads, until this replica shall not, or cannot any more.
    async fn lead(&mut self, lead: Lead, leaving: &mut watch::Receiver<bool>) {
        let Lead { store, trust, epoch, now, rewound } = lead;
        let begun = Instant::now();
        self.around.metrics.led(Led::Taken);
        self.read_configuration();
        let (reader, own_reader) = self.database.readers();
        let opened = Opened {
            store,
            reader,
            own_reader,
            packages: self.database.packages(),
            sealing: Sealing::default(),
        };
        let around = Around { clock: Clock::of(now), lead: Some(trust.clone()), ..self.around.clone() };
        let (config, path) = (self.config.clone(), self.options.config.clone());
        // Reading the state takes its time, and blocks.
        let starting =
            tokio::task::spawn_blocking(move || start_within(config, opened, Some(path), around, rewound));
        let mut started = match starting.await.map_err(anyhow::Error::from).and_then(|started| started) {
            Ok(started) => started,
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), epoch, "cannot lead");
                trust.end();
                self.around.metrics.led(Led::Lost);
                return sleep(AFTER_FAILURE).await;
            }
        };
        match self.options.only_tokens {
            true => started.plane.access = self.access.clone(),
            false => started.plane.guard_by(self.access.clone()),
        }
        started.send_traces(&self.options.state_dir);
        let routes = http::router(started.plane.clone(), self.listen, &self.options.names);
        let leader = Leader {
            replica: self.name.clone(),
            address: Some(self.advertised.clone()),
            since: now.0,
            epoch,
        };
        self.show(|scene| (scene.lead, scene.leader) = (Some(routes.clone()), Some(leader.clone())));
        tracing::info!(epoch, rewound, took = ?begun.elapsed(), "this replica leads");
        let _reloads = reload::watch(&self.options.config, started.plane.reloader.clone());
        let planned = self.until_over(&started, &trust, &(routes, leader), leaving).await;
        self.config = (*started.plane.reloader.in_force()).clone();
        // From here on new requests wait for the next leader.
        self.show(|scene| (scene.lead, scene.leader) = (None, None));
        match planned {
            true => match started.stop().await {
                Ok(()) => {
                    self.around.metrics.led(Led::Resigned);
                    tracing::info!(epoch, "this replica gave the lead up");
                }
                Err(error) => {
                    self.around.metrics.led(Led::Lost);
                    tracing::error!(%error, epoch, "requests without an answer are lost; everything that was answered is kept");
                }
            },
            false => {
                trust.end();
                self.around.metrics.led(Led::Lost);
                let error = started.stop().await.err().map(|error| error.to_string()).unwrap_or_default();
                tracing::warn!(epoch, error, "this replica does not lead any more");
            }
        }
    }

    /// True if we shall leave, false if the lead is lost. While it is not certain that we lead, we do
    /// not say so, and requests wait.
    async fn until_over(
        &self,
        started: &Started,
        trust: &Trust,
        (routes, leader): &(Router, Leader),
        leaving: &mut watch::Receiver<bool>,
    ) -> bool {
        let lost = async {
            let mut said = true;
            while !trust.has_ended() && !started.running.has_ended() {
                let holds = trust.holds();
                if holds != said {
                    said = holds;
                    let epoch = leader.epoch;
                    match holds {
                        true => tracing::info!(epoch, "the lease is renewed again: this replica leads"),
                        false => tracing::warn!(epoch, "the lease was not renewed in time: requests wait"),
                    }
                    let leads = holds.then(|| (routes.clone(), leader.clone()));
                    self.show(|scene| (scene.lead, scene.leader) = leads.unzip());
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let look_around = async {
            loop {
                self.look().await;
                sleep(LOOK_AROUND).await;
            }
        };
        tokio::select! {
            _ = leaving.wait_for(|leaving| *leaving) => true,
            () = lost => false,
            never = look_around => never,
        }
    }

    fn show(&self, change: impl FnOnce(&mut Scene)) {
        self.scenes.send_modify(change);
    }

    /// The file may have changed since this replica last led.
    fn read_configuration(&mut self) {
        match configuration::read_again(&self.config, &self.options.config) {
            Ok(config) => {
                if !self.options.only_tokens {
                    match self.access.sign_on(&config.sso) {
                        Ok(apply) => apply(),
                        Err(error) => tracing::error!(%error, "single sign-on stays as it was"),
                    }
                }
                self.config = config;
            }
            Err(error) => tracing::error!(%error, "the last valid configuration stays in force"),
        }
    }
}

fn local_routes(
    database: &Database,
    config: &Config,
    access: &Access,
    around: &Around,
    (listen, names): (SocketAddr, &[String]),
) -> Router {
    let (reader, own_reader) = database.readers();
    let opened = Standby { reader, own_reader, packages: database.packages() };
    let mut plane = standby(config, database.plane(), opened, around);
    plane.access = access.clone();
    http::router(plane, listen, names)
}

fn leader_of(seat: &Seat) -> Option<Leader> {
    let replica = seat.holder.clone().filter(|_| !seat.expired)?;
    Some(Leader { replica, address: seat.address.clone(), since: seat.since.0, epoch: seat.epoch })
}

fn replicas_of(seat: &Seat) -> Vec<ReplicaView> {
    let leads = |name: &str| !seat.expired && seat.holder.as_deref() == Some(name);
    let view = |replica: &multicluster_store::postgres::ReplicaSeen| ReplicaView {
        replica: replica.name.clone(),
        address: Some(replica.address.clone()),
        version: replica.version.clone(),
        role: if leads(&replica.name) { ReplicaRole::Leader } else { ReplicaRole::Follower },
        seen_at: replica.seen_at.0,
    };
    seat.replicas.iter().map(view).collect()
}

/// Replicas most often share one certificate, which no public authority may vouch for.
fn certificates(tls: Option<&TlsFiles>) -> anyhow::Result<Vec<reqwest::Certificate>> {
    let Some(TlsFiles { cert, .. }) = tls else { return Ok(Vec::new()) };
    let read = |path: &Path| anyhow::Ok(reqwest::Certificate::from_pem_bundle(&std::fs::read(path)?)?);
    read(cert).with_context(|| format!("cannot use {}", cert.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_says_how_others_reach_it_or_is_asked_to() {
        let at = |listen: &str, given: Option<&str>| {
            advertised(given, listen.parse().unwrap(), format!("http://{listen}"))
        };
        assert_eq!(at("10.0.0.1:8700", None).unwrap(), "http://10.0.0.1:8700");
        assert_eq!(at("0.0.0.0:8700", Some("https://a.lan:8700/")).unwrap(), "https://a.lan:8700");
        let everywhere = at("0.0.0.0:8700", None).unwrap_err().to_string();
        assert!(everywhere.contains("hint: pass --advertise http://NAME:8700"), "{everywhere}");
        for bad in ["a.lan:8700", "postgres://a", "http://", "http://a/b", ""] {
            assert!(at("10.0.0.1:8700", Some(bad)).is_err(), "{bad}");
        }
    }
}
