//! The control plane as the HTTP routes see it.

use std::sync::Arc;

use multicluster_store::{Packages, Reader, StoreError};
use multicluster_types::Timestamp;

use crate::{
    clusters::lanes::Lanes,
    engine::{
        driver::{Driver, Failure},
        events::Events,
        off_thread::off_thread,
        samples::Samples,
    },
    front::{
        access::Access,
        bounds::{Bounds, Permit},
        reload::Reloader,
        usage::Usage,
    },
    metrics::Metrics,
};

/// Everything a route needs. Cheap to clone.
#[derive(Clone)]
pub struct Plane {
    /// Feeds and reads the core.
    pub driver: Driver,
    /// The clusters' clients.
    pub lanes: Lanes,
    /// What happens.
    pub events: Events,
    /// What is measured.
    pub metrics: Metrics,
    /// The callers' files.
    pub packages: Arc<dyn Packages>,
    /// Reads the configuration again.
    pub reloader: Reloader,
    /// Who we are.
    pub id: Arc<str>,
    /// Since when.
    pub started_at: Timestamp,
    /// How things stood lately.
    pub(crate) samples: Samples,
    /// Who may ask for what.
    pub(crate) access: Access,
    /// How much may be asked at once.
    pub(crate) bounds: Bounds,
    /// Who is being served.
    pub(crate) usage: Usage,
    pub(crate) reader: Arc<dyn Reader>,
}

impl Plane {
    /// Looks up what is committed. Everything that was answered is.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn stored<T: Send + 'static>(
        &self,
        look: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failure> {
        let reader = Arc::clone(&self.reader);
        Ok(off_thread(move || look(&*reader)).await??)
    }

    /// The same where many jobs are looked at. The turn is over when the look is, whoever still
    /// waits for it.
    pub(crate) async fn search<T: Send + 'static>(
        &self,
        turn: Permit,
        look: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failure> {
        let looked = self.stored(move |store| Ok((look(store)?, turn)));
        Ok(looked.await?.0)
    }
}
