//! Exit codes that decide whether work that ran and failed is run again.

use std::{fmt, ops};

use serde::{Deserialize, Serialize};

/// A sorted set of exit codes, of bounded size.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<i64>", into = "Vec<i64>")]
pub struct ExitCodes(Box<[i16]>);

/// Which exit codes are worth a retry. An empty list allows every exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Lists")]
pub struct RetryCodes {
    #[serde(skip_serializing_if = "is_empty")]
    retry_on: ExitCodes,
    #[serde(skip_serializing_if = "is_empty")]
    never_retry_on: ExitCodes,
}

/// [`RetryCodes`] before they are checked.
#[derive(Deserialize)]
struct Lists {
    #[serde(default)]
    retry_on: ExitCodes,
    #[serde(default)]
    never_retry_on: ExitCodes,
}

/// Why exit codes were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExitCodesError {
    /// No process ends with it.
    #[error(
        "{0} is not an exit code\n  hint: use 0 to 255, or -1 to -64 for the number of the signal that ended it"
    )]
    OutOfRange(i64),
    /// Too many.
    #[error("more than {} exit codes\n  hint: list only the codes that matter", ExitCodes::MAX)]
    TooMany,
    /// It is both to be retried and not to be.
    #[error("exit code {0} is in retry_on and in never_retry_on\n  hint: remove it from one of them")]
    InBoth(i16),
}

/// Why an exit code is not worth a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotRetried {
    /// It is excluded.
    #[error("exit code {0} is in never_retry_on")]
    Excluded(i64),
    /// Others are listed.
    #[error("exit code {0} is not in retry_on")]
    NotListed(i64),
    /// Ray reported none, and only listed ones are retried.
    #[error("the exit code is unknown, so it is not in retry_on")]
    Unknown,
}

impl ExitCodes {
    /// The most exit codes in one list.
    pub const MAX: usize = 32;
    /// Exit codes as Ray reports them: the shell's 0 to 255, or the negative number of the signal
    /// that ended the shell.
    pub const RANGE: ops::RangeInclusive<i64> = -64..=255;

    /// Checks, sorts and removes repeats.
    ///
    /// # Errors
    /// For a number that cannot be an exit code, or too many.
    pub fn new(codes: impl IntoIterator<Item = i64>) -> Result<Self, ExitCodesError> {
        let mut kept = Vec::new();
        for (count, code) in (1..).zip(codes) {
            if count > Self::MAX {
                return Err(ExitCodesError::TooMany);
            }
            let known = i16::try_from(code).ok().filter(|_| Self::RANGE.contains(&code));
            kept.push(known.ok_or(ExitCodesError::OutOfRange(code))?);
        }
        kept.sort_unstable();
        kept.dedup();
        Ok(Self(kept.into()))
    }

    /// From the lowest.
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        self.0.iter().copied().map(i64::from)
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn contains(&self, code: i64) -> bool {
        i16::try_from(code).is_ok_and(|code| self.0.binary_search(&code).is_ok())
    }
}

impl RetryCodes {
    /// Both lists, which have no code in common.
    ///
    /// # Errors
    /// For a code that is in both.
    pub fn new(retry_on: ExitCodes, never_retry_on: ExitCodes) -> Result<Self, ExitCodesError> {
        match retry_on.0.iter().find(|code| never_retry_on.0.contains(code)) {
            Some(code) => Err(ExitCodesError::InBoth(*code)),
            None => Ok(Self { retry_on, never_retry_on }),
        }
    }

    /// The only codes to retry on, unless empty.
    #[must_use]
    pub fn retry_on(&self) -> &ExitCodes {
        &self.retry_on
    }

    /// The codes not to retry on.
    #[must_use]
    pub fn never_retry_on(&self) -> &ExitCodes {
        &self.never_retry_on
    }

    /// Do both lists allow every code?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.retry_on.is_empty() && self.never_retry_on.is_empty()
    }

    /// May work that failed with this exit code be retried?
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, exit_code: Option<i64>) -> Result<(), NotRetried> {
        match exit_code {
            Some(code) if self.never_retry_on.contains(code) => Err(NotRetried::Excluded(code)),
            _ if self.retry_on.is_empty() => Ok(()),
            Some(code) if self.retry_on.contains(code) => Ok(()),
            Some(code) => Err(NotRetried::NotListed(code)),
            None => Err(NotRetried::Unknown),
        }
    }
}

fn is_empty(codes: &ExitCodes) -> bool {
    codes.is_empty()
}

impl TryFrom<Lists> for RetryCodes {
    type Error = ExitCodesError;
    fn try_from(lists: Lists) -> Result<Self, ExitCodesError> {
        Self::new(lists.retry_on, lists.never_retry_on)
    }
}

impl TryFrom<Vec<i64>> for ExitCodes {
    type Error = ExitCodesError;
    fn try_from(codes: Vec<i64>) -> Result<Self, ExitCodesError> {
        Self::new(codes)
    }
}

impl From<ExitCodes> for Vec<i64> {
    fn from(codes: ExitCodes) -> Self {
        codes.iter().collect()
    }
}

impl fmt::Display for ExitCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, code) in self.0.iter().enumerate() {
            write!(f, "{}{code}", if nth == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(retry_on: &[i64], never_retry_on: &[i64]) -> Result<RetryCodes, ExitCodesError> {
        let set = |codes: &[i64]| ExitCodes::new(codes.iter().copied());
        RetryCodes::new(set(retry_on)?, set(never_retry_on)?)
    }

    #[test]
    fn exit_codes_are_a_set_of_codes_that_processes_end_with() {
        let set = ExitCodes::new([137, 3, -9, 3]).unwrap();
        assert_eq!(set.to_string(), "-9, 3, 137");
        assert_eq!(set.iter().collect::<Vec<_>>(), [-9, 3, 137]);
        for code in [-64, -1, 0, 255] {
            assert!(ExitCodes::new([code]).is_ok());
        }
        for code in [-65, 256, i64::MIN, i64::MAX, 65536 + 3] {
            assert_eq!(ExitCodes::new([code]), Err(ExitCodesError::OutOfRange(code)));
        }
        assert!(ExitCodes::new(0..32).is_ok());
        assert_eq!(ExitCodes::new(0..), Err(ExitCodesError::TooMany));
        assert_eq!(codes(&[3, 4], &[2, 4]), Err(ExitCodesError::InBoth(4)));
    }

    #[test]
    fn a_listed_code_is_retried_and_an_excluded_one_is_not() {
        use NotRetried::{Excluded, NotListed, Unknown};
        for (retry_on, never, code, expected) in [
            (&[][..], &[][..], Some(1), Ok(())),
            (&[], &[], None, Ok(())),
            (&[3, 4], &[], Some(3), Ok(())),
            (&[3, 4], &[], Some(1), Err(NotListed(1))),
            (&[3, 4], &[], None, Err(Unknown)),
            (&[], &[2], Some(2), Err(Excluded(2))),
            (&[], &[2], Some(1), Ok(())),
            (&[], &[2], None, Ok(())),
            (&[3], &[2], Some(2), Err(Excluded(2))),
            (&[3], &[2], Some(1), Err(NotListed(1))),
            (&[-9, 137], &[], Some(-9), Ok(())),
            // What Windows reports for a crash.
            (&[5], &[], Some(3_221_225_477), Err(NotListed(3_221_225_477))),
        ] {
            assert_eq!(
                codes(retry_on, never).unwrap().check(code),
                expected,
                "{retry_on:?} {never:?} {code:?}"
            );
        }
    }

    #[test]
    fn what_is_stored_is_read_again_and_checked() {
        let kept = codes(&[3, -9], &[2]).unwrap();
        let json = serde_json::to_string(&kept).unwrap();
        assert_eq!(json, r#"{"retry_on":[-9,3],"never_retry_on":[2]}"#);
        assert_eq!(serde_json::from_str::<RetryCodes>(&json).unwrap(), kept);
        assert!(serde_json::from_str::<RetryCodes>(r#"{"retry_on":[1],"never_retry_on":[1]}"#).is_err());
        assert!(serde_json::from_str::<RetryCodes>(r#"{"retry_on":[1000]}"#).is_err());
    }
}
