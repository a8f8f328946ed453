//! Fake Ray dashboards as a process, for tests in other languages and for benchmarks.
//!
//! ```sh
//! cargo run -p multicluster-testkit --example fake_ray -- --clusters 100 --port 0
//! ```
//!
//! Prints the base URL as one line and serves until it is ended. With `--clusters N` the fakes
//! are at `URL/c0` to `URL/c{N-1}`; without it there is one, at the URL itself.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use multicluster_testkit::{FakeAutoscaler, FakeFleet, FakeNode, FakeOptions, FakeRay};

const USAGE: &str =
    "usage: fake_ray [--clusters N] [--port P] [--cpus N] [--gpus N] [--memory GIB] [--token T]
                [--name NAME] [--ray-version V] [--no-session] [--unknown-field FIELD] [--runs-for SECONDS]
                [--ledger FILE] [--grow CPUS,MAX_NODES,SECONDS,IDLE_SECONDS] [--like-ray] [--until-stdin-closes]";

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a tokio runtime").block_on(serve(args));
    ExitCode::SUCCESS
}

async fn serve(args: Args) {
    if let Some(count) = args.clusters {
        let fleet =
            FakeFleet::start_with(args.port, (0..count).map(|index| args.options(format!("c{index}")))).await;
        announce(&fleet.base_url());
        wait(args.until_stdin_closes).await;
    } else {
        let fake =
            FakeRay::start(args.options(args.name.clone().unwrap_or("ray".into())).port(args.port)).await;
        announce(&fake.url());
        wait(args.until_stdin_closes).await;
    }
}

fn announce(url: &str) {
    // Flushed: the reader is usually a pipe.
    let mut out = std::io::stdout();
    writeln!(out, "{url}").and_then(|()| out.flush()).expect("stdout takes one line");
}

async fn wait(until_stdin_closes: bool) {
    let (closed, on_close) = tokio::sync::oneshot::channel();
    if until_stdin_closes {
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            let _ = closed.send(());
        });
        let _ = on_close.await;
    } else {
        let _ = tokio::signal::ctrl_c().await;
    }
}

#[derive(Default)]
struct Args {
    clusters: Option<usize>,
    port: u16,
    cpus: Option<f64>,
    gpus: Option<f64>,
    memory: Option<f64>,
    token: Option<String>,
    name: Option<String>,
    ray_version: Option<String>,
    no_session: bool,
    unknown_fields: Vec<String>,
    runs_for: Option<f64>,
    ledger: Option<std::path::PathBuf>,
    grow: Option<Grow>,
    like_ray: bool,
    until_stdin_closes: bool,
}

impl Args {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self::default();
        while let Some(flag) = words.next() {
            match flag.as_str() {
                "--clusters" => args.clusters = Some(value(&flag, words.next())?),
                "--port" => args.port = value(&flag, words.next())?,
                "--cpus" => args.cpus = Some(value(&flag, words.next())?),
                "--gpus" => args.gpus = Some(value(&flag, words.next())?),
                "--memory" => args.memory = Some(value(&flag, words.next())?),
                "--token" => args.token = Some(value(&flag, words.next())?),
                "--name" => args.name = Some(value(&flag, words.next())?),
                "--no-session" => args.no_session = true,
                "--unknown-field" => args.unknown_fields.push(value(&flag, words.next())?),
                "--ray-version" => args.ray_version = Some(value(&flag, words.next())?),
                "--runs-for" => args.runs_for = Some(value(&flag, words.next())?),
                "--ledger" => args.ledger = Some(value(&flag, words.next())?),
                "--grow" => args.grow = Some(value(&flag, words.next())?),
                "--like-ray" => args.like_ray = true,
                "--until-stdin-closes" => args.until_stdin_closes = true,
                other => return Err(format!("unknown argument {other:?}")),
            }
        }
        Ok(args)
    }

    fn options(&self, name: String) -> FakeOptions {
        let mut options = FakeOptions::new(name);
        if self.like_ray {
            options = options.like_ray();
        }
        if let Some(cpus) = self.cpus {
            options = options.cpus(cpus);
        }
        if let Some(gpus) = self.gpus {
            options = options.gpus(gpus);
        }
        if let Some(gib) = self.memory {
            options = options.memory(gib * 1024_f64.powi(3));
        }
        if let Some(version) = &self.ray_version {
            options = options.ray_version(version);
        }
        if let Some(seconds) = self.runs_for {
            options = options.runs_for(Duration::from_secs_f64(seconds));
        }
        options.autoscaler = self.grow.as_ref().map(|grow| grow.0.clone());
        options.reports_session = !self.no_session;
        options.unknown_fields = self.unknown_fields.clone();
        options.token = self.token.clone();
        options.ledger = self.ledger.clone();
        options
    }
}

/// What each added node has, how many there may be, how long a launch takes, and how long a node may
/// be idle.
struct Grow(FakeAutoscaler);

impl FromStr for Grow {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<&str> = text.split(',').collect();
        let [cpus, most, takes, idle] = words[..] else { return Err(()) };
        let number = |word: &str| word.parse::<f64>().map_err(drop);
        let seconds = |word| Duration::try_from_secs_f64(number(word)?).map_err(drop);
        let autoscaler = FakeAutoscaler::new(FakeNode::new(number(cpus)?), most.parse().map_err(drop)?);
        Ok(Self(autoscaler.takes(seconds(takes)?).idle_timeout(seconds(idle)?)))
    }
}

fn value<T: FromStr>(flag: &str, word: Option<String>) -> Result<T, String> {
    let word = word.ok_or_else(|| format!("{flag} needs a value"))?;
    word.parse().map_err(|_| format!("{flag} does not take {word:?}"))
}
