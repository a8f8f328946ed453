//! The Python SDK as a package, for clusters that have not installed it.

use std::sync::OnceLock;

use multicluster_types::hex;
use sha2::{Digest, Sha256};

use crate::clusters::resolve::SdkPackage;

/// A zip, made when this program was built.
pub const CONTENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sdk.zip"));

/// Named by its content: every version has its own name on every cluster.
pub(crate) fn package() -> &'static SdkPackage {
    static PACKAGE: OnceLock<SdkPackage> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let sha256 = hex(&Sha256::digest(CONTENT));
        SdkPackage { name: format!("_ray_pkg_{}.zip", &sha256[..32]), sha256 }
    })
}
