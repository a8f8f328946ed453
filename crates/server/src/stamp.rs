//! Whether a file changed. Polling works on every disk, and also if a file is replaced through a
//! link, as Kubernetes does.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime},
};

/// Pause between two checks.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// Differs if the file changed or was replaced; `None`: there is no file.
pub(crate) type Stamp = Option<(SystemTime, u64, u64)>;

pub(crate) fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len(), found.ino()))
}
