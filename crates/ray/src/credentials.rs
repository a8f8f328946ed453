//! The token and headers of requests, read again whenever they may have changed.
//!
//! A token in a file may be replaced at any time, and the token of a command ends. So files are read
//! again every second, while requests are sent; a command is run again before its token ends; and
//! when the cluster refuses what was sent, everything is read again before the refusal counts.

use std::{
    fs::{self, File},
    io::{self, Read},
    sync::Arc,
    time::{Duration, SystemTime},
};

use multicluster_types::{Credential, as_header, as_token, refuse_header};
use parking_lot::RwLock;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use crate::{
    command,
    endpoint::{BuildError, Endpoint},
};

/// How old the content of a file may be.
const FILE_AGE: Duration = Duration::from_secs(1);
/// A disk that hangs does not stop requests: the last content is used.
const FILE_PATIENCE: Duration = Duration::from_secs(2);
/// Linux accepts no longer text as a variable, and no proxy a longer header.
const LARGEST_FILE: u64 = 128 << 10;
/// How long the output of a command is used if it does not say when it ends.
const COMMAND_AGE: Duration = Duration::from_secs(300);
/// A command is run again this long before its token ends.
const BEFORE_END: Duration = Duration::from_secs(60);
/// A command is not run more often than this, however often its token is refused or it fails.
const COMMAND_PAUSE: Duration = Duration::from_secs(5);

/// What requests carry, and where it comes from.
#[derive(Debug)]
pub(crate) struct Credentials {
    token: Option<Credential>,
    headers: Vec<(HeaderName, Credential)>,
    latest: RwLock<Option<Arc<Proof>>>,
    /// One reader at a time.
    reading: Mutex<Reading>,
}

/// What one request carries.
pub(crate) struct Proof {
    pub(crate) headers: HeaderMap,
    pub(crate) token: Option<String>,
    /// Texts that no message may contain.
    pub(crate) texts: Vec<String>,
    /// Until when it may be used without looking again; `None`: forever.
    look_again: Option<Instant>,
}

/// The last output of the command.
#[derive(Debug, Default)]
struct Reading {
    command: Option<Output>,
    ran_at: Option<Instant>,
    failure: Option<String>,
}

#[derive(Clone)]
struct Output {
    token: String,
    /// When the command is run again.
    renew_at: Instant,
    /// When the token is of no use any more, if that is known.
    ends_at: Option<Instant>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("renew_at", &self.renew_at).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proof").field("headers", &self.headers.len()).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Nothing is read yet, except what is given as it is.
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, BuildError> {
        let mut headers = Vec::new();
        for (name, value) in &endpoint.headers {
            let error = |why| BuildError::Header { name: name.chars().take(60).collect(), why };
            let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| error("not a header name"))?;
            let given = if let Credential::Given(secret) = value { secret.expose() } else { "" };
            if let Some(why) = refuse_header(parsed.as_str(), given) {
                return Err(error(why));
            }
            if as_header(given).is_none() {
                return Err(error("its value is not plain text"));
            }
            headers.push((parsed, value.clone()));
        }
        if let Some(Credential::Given(secret)) = &endpoint.token
            && as_token(secret.expose()).is_none()
        {
            return Err(BuildError::Token);
        }
        let token = endpoint.token.clone();
        Ok(Self { token, headers, latest: RwLock::default(), reading: Mutex::default() })
    }

    /// What the next request carries.
    ///
    /// # Errors
    /// Why there is nothing to send: for people, without secrets.
    pub(crate) async fn now(&self) -> Result<Arc<Proof>, String> {
        if let Some(latest) = self.usable() {
            return Ok(latest);
        }
        let mut reading = self.reading.lock().await;
        // Another request may have read it meanwhile.
        match self.usable() {
            Some(latest) => Ok(latest),
            None => self.read(&mut reading, false).await,
        }
    }

    /// The cluster refused this. Reads everything again; `None` if it is still the same.
    ///
    /// # Errors
    /// Why it cannot be read again: for people, without secrets.
    pub(crate) async fn instead_of(&self, refused: &Proof) -> Result<Option<Arc<Proof>>, String> {
        let mut reading = self.reading.lock().await;
        let latest = self.latest.read().clone();
        if let Some(latest) = latest.filter(|latest| latest.headers != refused.headers) {
            return Ok(Some(latest));
        }
        let read = self.read(&mut reading, true).await?;
        Ok((read.headers != refused.headers).then_some(read))
    }

    /// Names the credential that a cluster refuses.
    pub(crate) fn name(&self) -> String {
        if let Some(token) = &self.token {
            return name_of_token(token);
        }
        match self.headers.iter().find(|(name, _)| *name == AUTHORIZATION).or_else(|| self.headers.first()) {
            Some((name, Credential::File { file })) => format!("the header {name} from {file}"),
            Some((name, _)) => format!("the header {name}"),
            None => "a request without a token".to_owned(),
        }
    }

    fn usable(&self) -> Option<Arc<Proof>> {
        let latest = self.latest.read().clone()?;
        latest.look_again.is_none_or(|at| Instant::now() < at).then_some(latest)
    }

    /// `refused`: the cluster does not accept the latest.
    async fn read(&self, reading: &mut Reading, refused: bool) -> Result<Arc<Proof>, String> {
        let mut proof = Proof { headers: HeaderMap::new(), token: None, texts: Vec::new(), look_again: None };
        for (name, value) in &self.headers {
            let read = match value {
                Credential::Given(secret) => as_header(secret.expose()).unwrap_or_default().to_owned(),
                Credential::File { file } => {
                    proof.look_by(Instant::now() + FILE_AGE);
                    let read = |text: &str| as_header(text).map(str::to_owned);
                    let kept = || self.kept_header(name).filter(|_| !refused);
                    let what = format!("the header {name} from");
                    read_file(&what, file, read).await.or_else(|error| kept().ok_or(error))?
                }
                Credential::Command { .. } => continue,
            };
            proof.add(name.clone(), &read).map_err(|()| format!("the header {name} cannot be sent"))?;
            proof.texts.push(read);
        }
        if let Some(token) = &self.token {
            let read = match token {
                Credential::Given(secret) => secret.expose().trim().to_owned(),
                Credential::File { file } => {
                    proof.look_by(Instant::now() + FILE_AGE);
                    let kept = || self.latest.read().as_ref()?.token.clone().filter(|_| !refused);
                    let read = |text: &str| as_token(text).map(str::to_owned);
                    read_file("token_file", file, read).await.or_else(|error| kept().ok_or(error))?
                }
                Credential::Command { command } => {
                    let output = reading.token_of(command, &name_of_token(token), refused).await?;
                    proof.look_by(output.renew_at.max(Instant::now() + FILE_AGE));
                    output.token
                }
            };
            let taken = proof.headers.contains_key(AUTHORIZATION);
            let name = if taken { HeaderName::from_static("x-ray-authorization") } else { AUTHORIZATION };
            proof.add(name, &format!("Bearer {read}")).map_err(|()| "the token cannot be sent".to_owned())?;
            proof.texts.push(read.clone());
            proof.token = Some(read);
        }
        let proof = Arc::new(proof);
        *self.latest.write() = Some(Arc::clone(&proof));
        Ok(proof)
    }

    fn kept_header(&self, name: &HeaderName) -> Option<String> {
        let latest = self.latest.read();
        latest.as_ref()?.headers.get(name)?.to_str().ok().map(str::to_owned)
    }
}

fn name_of_token(token: &Credential) -> String {
    match token {
        Credential::Given(_) => "the token".to_owned(),
        Credential::File { file } => format!("token_file {file}"),
        Credential::Command { .. } => format!("token_command {}", token.program().unwrap_or_default()),
    }
}

impl Proof {
    fn add(&mut self, name: HeaderName, text: &str) -> Result<(), ()> {
        let mut value = HeaderValue::from_str(text).map_err(drop)?;
        value.set_sensitive(true);
        self.headers.append(name, value);
        Ok(())
    }

    fn look_by(&mut self, at: Instant) {
        self.look_again = Some(self.look_again.map_or(at, |by| by.min(at)));
    }
}

impl Reading {
    /// The token of the command: its last output, or a new one.
    async fn token_of(&mut self, words: &[Arc<str>], name: &str, refused: bool) -> Result<Output, String> {
        let now = Instant::now();
        let ran_lately = self.ran_at.is_some_and(|at| now < at + COMMAND_PAUSE);
        let renew = refused || self.command.as_ref().is_none_or(|output| output.renew_at <= now);
        if renew && !ran_lately {
            self.failure = None;
            let ran = command::run(words).await;
            self.ran_at = Some(Instant::now());
            match ran.and_then(|text| as_token(&text).map(str::to_owned).ok_or_else(no_token)) {
                Ok(token) => self.command = Some(Output::new(token, Instant::now(), SystemTime::now())),
                Err(why) => self.failure = Some(format!("{name} failed: {why}")),
            }
        }
        let now = Instant::now();
        let usable = self.command.as_ref().filter(|output| output.ends_at.is_none_or(|at| now < at));
        match (usable, &self.failure) {
            // What is refused is of no use, even if it has not ended.
            (Some(output), None) => Ok(output.clone()),
            (Some(output), Some(_)) if !refused => {
                Ok(Output { renew_at: now + COMMAND_PAUSE, ..output.clone() })
            }
            (_, Some(failure)) => Err(failure.clone()),
            (None, None) => Err(format!("{name} printed a token that has already ended")),
        }
    }
}

fn no_token() -> String {
    "it did not print a token alone".to_owned()
}

impl Output {
    fn new(token: String, now: Instant, wall: SystemTime) -> Self {
        let Some(left) = command::expires(&token).map(|at| at.duration_since(wall).unwrap_or_default())
        else {
            return Self { token, renew_at: now + COMMAND_AGE, ends_at: None };
        };
        // A short token would otherwise be renewed all the time.
        let renew_at = now + left.saturating_sub(BEFORE_END).max(left / 2).max(COMMAND_PAUSE);
        // Clocks differ: a token that seems to have ended just now is tried once.
        Self { token, renew_at, ends_at: Some(now + left.max(COMMAND_PAUSE)) }
    }
}

/// The text of a small file, as `read` understands it.
async fn read_file(
    what: &str,
    file: &Arc<str>,
    read: impl FnOnce(&str) -> Option<String>,
) -> Result<String, String> {
    let path = Arc::clone(file);
    let content = tokio::task::spawn_blocking(move || bounded(&path));
    let content = match timeout(FILE_PATIENCE, content).await {
        Ok(Ok(content)) => content.map_err(|error| format!("{what} {file} cannot be read: {error}"))?,
        Ok(Err(_)) => return Err(format!("{what} {file} cannot be read: the control plane is stopping")),
        Err(_) => return Err(format!("{what} {file} cannot be read: its disk does not answer")),
    };
    read(&content).ok_or_else(|| format!("{what} {file} has no usable content"))
}

fn bounded(path: &str) -> io::Result<String> {
    // Anything but a regular file may block, or never end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    File::open(path)?.take(LARGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_before_it_ends_and_others_after_a_while() {
        let (now, wall) = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
        let jwt = |seconds: u64| {
            let claims = format!(r#"{{"exp":{}}}"#, 1_000_000 + seconds);
            Output::new(command::tests::jwt(&claims), now, wall)
        };
        for (lives, renewed) in [(3600, 3540), (100, 50), (8, 5), (0, 5)] {
            let output = jwt(lives);
            assert_eq!(output.renew_at - now, Duration::from_secs(renewed), "{lives}");
            assert_eq!(output.ends_at.unwrap() - now, Duration::from_secs(lives.max(5)), "{lives}");
        }
        let opaque = Output::new("opaque".to_owned(), now, wall);
        assert_eq!((opaque.renew_at - now, opaque.ends_at), (COMMAND_AGE, None));
    }
}
