//! Operating system and processor architecture: a fact of a cluster, a demand of work.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::Tag;

/// The platform of a cluster, or the platform that work asks for. `None`: not given.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Platform {
    /// `linux`, `macos`, `windows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<PlatformName>,
    /// `x86_64`, `arm64`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<PlatformName>,
}

impl Platform {
    /// Can a cluster of this platform run work that asks for `wanted`? A cluster whose platform
    /// is unknown cannot.
    #[must_use]
    pub fn serves(&self, wanted: &Platform) -> bool {
        let fits = |has: &Option<PlatformName>, asks: &Option<PlatformName>| asks.is_none() || has == asks;
        fits(&self.os, &wanted.os) && fits(&self.arch, &wanted.arch)
    }

    /// Is neither given?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.os.is_none() && self.arch.is_none()
    }

    /// Fills in missing values from tags that name a system or an architecture: operators tag
    /// clusters this way, and Ray itself reports neither.
    #[must_use]
    pub fn or_tags(&self, tags: &[Tag]) -> Platform {
        let named = |known: &[&str]| {
            let mut names = tags.iter().filter_map(|tag| PlatformName::new(tag.as_str()).ok());
            names.find(|name| known.contains(&name.as_str()))
        };
        Platform {
            os: self.os.clone().or_else(|| named(SYSTEMS)),
            arch: self.arch.clone().or_else(|| named(ARCHITECTURES)),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.os.iter().chain(&self.arch).map(PlatformName::as_str).collect();
        f.pad(&if names.is_empty() { "an unknown platform".to_owned() } else { names.join(" ") })
    }
}

/// Words that always mean a system or an architecture.
const SYSTEMS: &[&str] = &["linux", "macos", "windows"];
const ARCHITECTURES: &[&str] = &["x86_64", "arm64", "ppc64le", "s390x", "riscv64"];

/// The name of a system or an architecture: lower case, with one spelling each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PlatformName(Arc<str>);

/// Why a text cannot be the name of a system or an architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{start:?} is not the name of a platform\n  hint: write linux, macos, x86_64 or arm64")]
pub struct PlatformError {
    /// The first characters of the input.
    start: String,
}

impl PlatformName {
    const MAX: usize = 32;

    /// `amd64` is `x86_64`, `aarch64` is `arm64`, `Darwin` is `macos`.
    ///
    /// # Errors
    /// For anything but a short word.
    pub fn new(text: &str) -> Result<Self, PlatformError> {
        let word = text.trim().to_ascii_lowercase();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if word.is_empty() || word.len() > Self::MAX || !word.chars().all(legal) {
            return Err(PlatformError { start: text.chars().take(40).collect() });
        }
        Ok(Self(match word.as_str() {
            "amd64" | "x64" | "x86-64" => "x86_64".into(),
            "aarch64" => "arm64".into(),
            "darwin" | "osx" | "mac" => "macos".into(),
            "win32" => "windows".into(),
            _ => word.into(),
        }))
    }

    /// The canonical spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PlatformName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for PlatformName {
    type Error = PlatformError;
    fn try_from(text: String) -> Result<Self, PlatformError> {
        Self::new(&text)
    }
}

impl From<PlatformName> for String {
    fn from(name: PlatformName) -> String {
        name.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tags;

    fn platform(os: &str, arch: &str) -> Platform {
        Platform { os: PlatformName::new(os).ok(), arch: PlatformName::new(arch).ok() }
    }

    #[test]
    fn one_platform_has_one_spelling() {
        assert_eq!(platform("Darwin", "aarch64"), platform("macos", "arm64"));
        assert_eq!(platform("Linux", "AMD64").to_string(), "linux x86_64");
        for bad in ["", "has space", "a\nb", &"x".repeat(33)] {
            assert!(PlatformName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_cluster_serves_what_it_says_it_is() {
        let (mac, silent) = (platform("macos", "arm64"), Platform::default());
        assert!(mac.serves(&platform("", "arm64")) && mac.serves(&Platform::default()));
        assert!(!mac.serves(&platform("", "x86_64")) && !silent.serves(&platform("", "arm64")));
    }

    #[test]
    fn tags_say_what_ray_does_not() {
        let tags = Tags::new(["arm64", "fast", "macos"]).unwrap();
        assert_eq!(Platform::default().or_tags(&tags), platform("macos", "arm64"));
        assert_eq!(platform("linux", "").or_tags(&tags), platform("linux", "arm64"), "facts come first");
    }
}
