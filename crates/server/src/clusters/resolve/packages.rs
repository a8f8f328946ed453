//! The names that our packages have on a cluster.
//!
//! A client chooses a package's name, by a weak hash or freely, and Ray goes on serving the
//! unpacked copy it has of a name. So on clusters the name is the SHA-256 of the content. Then no
//! package is mistaken for another, and a package that is already there need not be sent.

use std::collections::BTreeMap;

use multicluster_types::{MAX_PACKAGE_NAME, RuntimeEnv};
use serde_json::Value;

use super::{ResolveError, excerpt, wrong_type};

/// The Python SDK that comes with the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdkPackage {
    /// Its file name: a `.zip` with the package's folder in it, or a wheel.
    pub name: String,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
}

/// A package that a request refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushedPackage {
    /// Its file name on the cluster: `gcs://<name>` in the runtime_env.
    pub name: String,
    /// SHA-256 of its content, in hex: its key in our store.
    pub sha256: String,
}

const GCS: &str = "gcs://";
/// Files that Ray unpacks or installs; longer extensions first.
const EXTENSIONS: [&str; 7] = [".tar.bz2", ".tar.gz", ".tar.xz", ".tgz", ".zip", ".whl", ".jar"];
/// Fields that name packages, as a text or as a list.
const FIELDS: [&str; 3] = ["working_dir", "py_modules", "java_jars"];
/// Enough of a SHA-256 to avoid collisions.
const DIGITS: usize = 32;

/// The packages of one request, each once.
#[derive(Debug, Default)]
pub(super) struct Pushed(Vec<PushedPackage>);

impl Pushed {
    /// Gives our packages their names on the cluster. Other URIs stay: `s3://` and the like, and
    /// `gcs://` URIs that the cluster itself may know.
    pub(super) fn rename(
        &mut self,
        env: &mut RuntimeEnv,
        ours: &BTreeMap<String, String>,
    ) -> Result<(), ResolveError> {
        for field in FIELDS {
            match env.get_mut(field) {
                Some(Value::String(uri)) => self.rename_one(uri, ours)?,
                Some(Value::Array(uris)) => {
                    for uri in uris.iter_mut() {
                        if let Value::String(uri) = uri {
                            self.rename_one(uri, ours)?;
                        }
                    }
                    // Two names of the same content have become one.
                    let mut seen = std::collections::HashSet::new();
                    uris.retain(|uri| seen.insert(uri.clone()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts the SDK before the other modules, so that Python imports this one.
    pub(super) fn inject(
        &mut self,
        uri: &str,
        sha256: &str,
        env: &mut RuntimeEnv,
    ) -> Result<(), ResolveError> {
        let uri = Value::String(self.add(uri, sha256)?);
        match env.entry("py_modules").or_insert_with(|| Value::Array(Vec::new())) {
            Value::Array(modules) => {
                modules.retain(|module| *module != uri);
                modules.insert(0, uri);
                Ok(())
            }
            other => Err(wrong_type("py_modules", other, "a list", "write a list of URIs")),
        }
    }

    pub(super) fn into_packages(self) -> Vec<PushedPackage> {
        self.0
    }

    fn rename_one(&mut self, uri: &mut String, ours: &BTreeMap<String, String>) -> Result<(), ResolveError> {
        if let Some(sha256) = ours.get(uri.as_str()).filter(|_| uri.starts_with(GCS)) {
            *uri = self.add(uri, sha256)?;
        }
        Ok(())
    }

    /// Adds a package and returns its URI on the cluster.
    fn add(&mut self, uri: &str, sha256: &str) -> Result<String, ResolveError> {
        let is_digest = sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_digest {
            return Err(ResolveError::BadDigest { uri: excerpt(uri) });
        }
        let sha256 = sha256.to_ascii_lowercase();
        let name = southbound(uri.trim_start_matches(GCS), &sha256)
            .map_err(|hint| ResolveError::BadPackage { uri: excerpt(uri), hint })?;
        let uri = format!("{GCS}{name}");
        if !self.0.iter().any(|known| known.name == name) {
            self.0.push(PushedPackage { name, sha256 });
        }
        Ok(uri)
    }
}

/// The name that a package has on a cluster, or a hint which names can be used.
fn southbound(name: &str, sha256: &str) -> Result<String, &'static str> {
    let digits = &sha256[..DIGITS];
    match EXTENSIONS.iter().find(|extension| name.ends_with(*extension)) {
        Some(&".whl") => wheel(name, digits),
        Some(extension) => Ok(format!("_ray_pkg_{digits}{extension}")),
        None => Err("use .zip, .whl, .jar, .tar.gz, .tgz, .tar.xz or .tar.bz2"),
    }
}

/// pip reads a wheel's name: `name-version[-build]-python-abi-platform.whl`. The build number is
/// free for the digest; it has to begin with a digit.
fn wheel(name: &str, digits: &str) -> Result<String, &'static str> {
    const HINT: &str = "name a wheel as it was built: name-version-python-abi-platform.whl";
    let is_fine = |part: &&str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.+!".contains(&b))
    };
    let stem = name.strip_suffix(".whl").unwrap_or(name);
    let parts: Vec<&str> = stem.split('-').collect();
    if name.len() > MAX_PACKAGE_NAME || !parts.iter().all(is_fine) {
        return Err(HINT);
    }
    match parts.as_slice() {
        [name, version, python, abi, platform] => {
            Ok(format!("{name}-{version}-0_{digits}-{python}-{abi}-{platform}.whl"))
        }
        [name, version, build, python, abi, platform] if build.starts_with(|c: char| c.is_ascii_digit()) => {
            Ok(format!("{name}-{version}-{build}_{digits}-{python}-{abi}-{platform}.whl"))
        }
        _ => Err(HINT),
    }
}
