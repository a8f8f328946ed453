//! Folders of the submitter's machine, and the packages that stand for them.

use std::collections::BTreeMap;

use multicluster_api::codes;

use super::runtime_env::{self, MAX_URI, PACKAGE};
use crate::problem::Problem;

/// As many as there may be `py_modules`.
const MOST: usize = 64;

/// Checks them. A path is the same with and without a slash at its end, so it is kept
/// without.
pub(super) fn check(given: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Problem> {
    if given.len() > MOST {
        let problem = Problem::new(codes::BAD_JOB, format!("packages has {} entries", given.len()));
        return Err(problem.hint(format!("at most {MOST} are allowed")));
    }
    let mut folders = BTreeMap::new();
    for (path, uri) in given {
        let folder = path.trim_end_matches('/');
        if folder.is_empty() || folder.len() > MAX_URI || folder.contains("://") {
            let problem =
                Problem::new(codes::BAD_JOB, format!("packages: {:?} is not a folder", start(&path)));
            return Err(problem.hint("name each by its path, as the runtime_env writes it"));
        }
        if !uri.starts_with(PACKAGE) {
            let message =
                format!("packages: {:?} stands for {:?} and is no package", start(&uri), start(&path));
            return Err(Problem::new(codes::BAD_JOB, message).hint("upload it, and write gcs://NAME"));
        }
        runtime_env::check_package_name(&uri)?;
        if folders.get(folder).is_some_and(|other| *other != uri) {
            let message = format!("packages: two stand for {:?}", start(folder));
            return Err(Problem::new(codes::BAD_JOB, message).hint("a slash at the end makes no difference"));
        }
        folders.insert(folder.to_owned(), uri);
    }
    Ok(folders)
}

fn start(text: &str) -> String {
    text.chars().take(80).collect()
}
