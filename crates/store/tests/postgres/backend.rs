//! PostgreSQL: one database for each test.

use std::{
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use multicluster_store::{
    Opened, Options, StoreError,
    postgres::{Database, Lead, Replica},
};

use crate::server::{Server, ask, block};

/// How many random worlds there are.
pub(crate) const CASES: u32 = 40;

/// Where one store is.
pub(crate) struct Place(String);

impl Place {
    pub(crate) fn new() -> Self {
        let server = Server::shared();
        Self(server.url(&server.database()))
    }

    /// As the leader after the last one is gone for long.
    pub(crate) fn open(&self, options: &Options) -> Opened {
        let database = open(&self.0, options.clone()).unwrap();
        expire(&self.0);
        let lead = take(&database).expect("the lease has ended");
        let (reader, own_reader) = database.readers();
        let sealing = block(database.sealing()).unwrap();
        Opened { store: lead.store, reader, own_reader, packages: database.packages(), sealing }
    }
}

/// A replica with a name of its own.
pub(crate) fn a_replica() -> Replica {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Replica {
        name: format!("replica-{number}"),
        address: format!("http://127.0.0.1:{}", 1000 + number),
        version: "0.1.0".into(),
        plane: None,
    }
}

pub(crate) fn open(url: &str, options: Options) -> Result<Database, StoreError> {
    block(Database::open(url, options, a_replica()))
}

/// Takes the lead if it is free.
pub(crate) fn take(database: &Database) -> Option<Lead> {
    block(async {
        let seat = database.seat().await.unwrap();
        database.take(&seat).await.unwrap()
    })
}

/// Takes the lead as soon as it is free.
pub(crate) fn take_in_time(database: &Database) -> Lead {
    let began = Instant::now();
    loop {
        if let Some(lead) = take(database) {
            return lead;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "the lease has not ended");
        thread::sleep(Duration::from_millis(20));
    }
}

/// It renews its lease meanwhile, as a leader does.
pub(crate) fn while_it_leads(lead: &mut Lead, work: impl FnOnce()) {
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while is_done.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
                lead.store.renew().unwrap();
            }
        });
        work();
        drop(done);
    });
}

/// As if the leader had not been heard of for long.
pub(crate) fn expire(url: &str) {
    ask(url, "UPDATE multicluster.lead SET lease_ms = 0");
}
