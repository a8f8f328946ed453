//! The control plane as the HTTP routes see it.

use std::sync::Arc;

use multicluster_core::{Core, Explanation};
use multicluster_store::{Packages, Reader, StoreError};
use multicluster_types::{ClusterName, JobId, Timestamp};

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
        advice::Adviser,
        bounds::{Bounds, Permit},
        reload::Reloader,
        standing::Standing,
        usage::Usage,
    },
    metrics::Metrics,
    redact::redact_text,
};

/// Everything a route needs. Cheap to clone.
#[derive(Clone)]
pub struct Plane {
    /// Feeds and reads the core.
    pub driver: Driver,
    /// The clusters' clients.
    pub lanes: Lanes,
    /// Sends events to watchers.
    pub events: Events,
    /// The metrics.
    pub metrics: Metrics,
    /// The packages of callers.
    pub packages: Arc<dyn Packages>,
    /// Reads the configuration again.
    pub reloader: Reloader,
    /// The id of this control plane.
    pub id: Arc<str>,
    /// Which part this process has in it.
    pub(crate) standing: Standing,
    /// When this control plane started.
    pub started_at: Timestamp,
    /// The samples of the last hour.
    pub(crate) samples: Samples,
    /// Who may do what.
    pub(crate) access: Access,
    /// How much may be requested at once.
    pub(crate) bounds: Bounds,
    /// Which requests are being served.
    pub(crate) usage: Usage,
    /// Computes what would have shortened the waits.
    pub(crate) adviser: Adviser,
    pub(crate) reader: Arc<dyn Reader>,
}

impl Plane {
    /// From now on this decides who may do what, and reloads apply single sign-on to it.
    pub(crate) fn guard_by(&mut self, access: Access) {
        self.reloader.guard_by(access.clone());
        self.access = access;
    }

    /// Reads committed state. Every answered change is committed.
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

    /// Why a job is where it is; `None`: it is forgotten, or it is not known now, because nobody leads.
    pub(crate) async fn why(&self, job: JobId) -> Result<Option<Explanation>, Failure> {
        match self.driver.read(move |core| core.explain(&job).ok()).await {
            Err(Failure::NoLeader) if self.standing.is_orphaned() => Ok(None),
            why => why,
        }
    }

    /// The address of a cluster's Ray dashboard for a browser. `None` if the cluster is gone, nobody leads, or
    /// the address contains a secret.
    pub(crate) async fn dashboard(&self, cluster: ClusterName) -> Option<String> {
        let look = move |core: &Core| core.dashboard(&cluster).map(str::to_owned);
        let address = self.driver.read(look).await.ok()??;
        let address = address.trim_end_matches('/').to_owned();
        (redact_text(&address) == address).then_some(address)
    }

    /// As [`stored`](Self::stored), for reads that look at many jobs. The turn ends when the read does, even if its
    /// caller has disconnected.
    pub(crate) async fn search<T: Send + 'static>(
        &self,
        turn: Permit,
        look: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failure> {
        let looked = self.stored(move |store| Ok((look(store)?, turn)));
        Ok(looked.await?.0)
    }
}
