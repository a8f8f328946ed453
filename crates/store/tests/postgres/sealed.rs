//! Secrets at rest in a database that replicas share, and their tokens.

use std::{path::Path, process::Command, sync::Arc};

use multicluster_store::{
    Options, Store, StoreError,
    postgres::{Database, Lead},
};

use crate::{
    backend::{expire, open, take},
    server::{Server, ask, block},
    support::*,
};

/// Everything that `pg_dump` writes.
fn dump(database: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
    let bin = Command::new(script).arg("bin").output().unwrap();
    let bin = String::from_utf8(bin.stdout).unwrap();
    let url = Server::shared().url(database);
    let dumped = Command::new(Path::new(bin.trim()).join("pg_dump")).arg(url).output().unwrap();
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    String::from_utf8(dumped.stdout).unwrap()
}

fn lead(url: &str, options: Options) -> (Database, Lead) {
    let database = open(url, options).unwrap();
    expire(url);
    let lead = take(&database).expect("the lease has ended");
    (database, lead)
}

fn opened(database: &Database, store: Box<dyn Store>) -> multicluster_store::Opened {
    let (reader, own_reader) = database.readers();
    let sealing = block(database.sealing()).unwrap();
    multicluster_store::Opened { store, reader, own_reader, packages: database.packages(), sealing }
}

/// Renews until only this key is needed.
fn seal_all(url: &str, lead: &mut Lead, key: &str) {
    let needed = || ask(url, "SELECT key FROM multicluster.sealed_by");
    for _ in 0..300 {
        lead.store.renew().unwrap();
        if needed() == [key] {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("it does not end: {:?}", needed());
}

const TOKENS: &str = r#"{"tokens": [{"sha256": "hunter2-hash"}]}"#;

#[test]
fn a_dump_of_a_sealed_database_shows_no_secret() {
    let name = Server::shared().database();
    let url = Server::shared().url(&name);
    let dir = TempDir::new();
    let keys = new_key(&dir);
    let (database, mut lead) = lead(&url, with_keys(&keys));
    lead.store.load().unwrap();
    lead.store.commit(&with_secrets(0..300)).unwrap();
    assert!(database.tokens().replace(None, TOKENS).unwrap());
    let text = dump(&name);
    assert!(text.contains("job-299") && text.contains("sealed:1:") && !text.contains(SECRET));
    assert_eq!(database.tokens().read().unwrap(), Some((1, TOKENS.to_owned())));
    check_secrets(&mut opened(&database, lead.store), 300);
}

#[test]
fn a_plain_database_that_gets_a_key_is_sealed_by_its_leader_while_it_works_and_then_by_a_newer_key() {
    let name = Server::shared().database();
    let url = Server::shared().url(&name);
    let (plain, mut leads) = lead(&url, Options::default());
    leads.store.commit(&with_secrets(0..1_000)).unwrap();
    assert!(plain.tokens().replace(None, TOKENS).unwrap());
    assert!(dump(&name).contains(SECRET));
    leads.store.resign().unwrap();
    let dir = TempDir::new();
    for round in 0..2 {
        let keys = new_key(&dir);
        let (database, mut leads) = lead(&url, with_keys(&keys));
        let count = leads.store.load().unwrap().durable.jobs.len() as u64;
        assert_eq!(count, 1_000 + round);
        let reader = database.readers().0;
        assert_eq!(reader.payload(&id("job-7")).unwrap(), Some(payload_with_secrets("job-7")));
        // Commits go on meanwhile, also of what is being sealed.
        let again = (0..5).map(|n| payload(&format!("job-{n}"), payload_with_secrets(&format!("job-{n}"))));
        leads.store.commit(&again.collect::<Vec<_>>()).unwrap();
        leads.store.commit(&[job(queued(&format!("later-{round}"), 2_000 + round))]).unwrap();
        seal_all(&url, &mut leads, keys.first().as_str());
        let unneeded = block(database.sealing()).unwrap().unneeded;
        assert_eq!(unneeded.iter().collect::<Vec<_>>(), keys.ids().skip(1).collect::<Vec<_>>());
        let text = dump(&name);
        assert!(!text.contains(SECRET), "round {round}");
        let first = format!("sealed:1:{}:", keys.first());
        assert_eq!(text.matches(&first).count(), 1_002, "all payloads, the cluster and the tokens");
        assert_eq!(text.matches("sealed:1:").count(), 1_002);
        assert_eq!(database.tokens().read().unwrap().unwrap().1, TOKENS);
    }
}

#[test]
fn a_replica_without_the_key_is_refused_before_anything_is_touched() {
    let url = Server::shared().url(&Server::shared().database());
    let (dir, other) = (TempDir::new(), TempDir::new());
    let keys = new_key(&dir);
    let (database, mut leads) = lead(&url, with_keys(&keys));
    leads.store.commit(&with_secrets(0..1)).unwrap();
    let written_by =
        || ask(&url, "SELECT xmin FROM multicluster.lead UNION ALL SELECT xmin FROM multicluster.replicas");
    let before = written_by();
    for (keys, hint) in [(None, "--key-file"), (Some(new_key(&other)), "your copy")] {
        let error = open(&url, Options { keys, ..Options::default() }).unwrap_err();
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
        assert!(error.to_string().contains(hint), "{error}");
    }
    assert_eq!(before, written_by());
    // A replica that runs with an older key file does not take the lead.
    let newer = new_key(&dir);
    drop(leads);
    let (_newer, mut leads) = lead(&url, with_keys(&newer));
    leads.store.load().unwrap();
    expire(&url);
    let error = block(async { database.take(&database.seat().await.unwrap()).await }).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
}

#[test]
fn tokens_are_replaced_by_one_at_a_time_and_seen_by_all() {
    let url = Server::shared().url(&Server::shared().database());
    let dir = TempDir::new();
    let keys = new_key(&dir);
    let replicas = [(); 2].map(|()| open(&url, with_keys(&keys)).unwrap());
    let [one, two] = replicas.each_ref().map(Database::tokens);
    assert_eq!((one.version().unwrap(), one.read().unwrap()), (None, None));
    assert!(one.replace(None, "{}").unwrap());
    assert!(!two.replace(None, "{\"late\": 1}").unwrap());
    assert_eq!(two.read().unwrap(), Some((1, "{}".to_owned())));
    // Many changes at once: each is made once.
    let adds = |tokens: &Arc<dyn multicluster_store::TokenTable>| {
        for _ in 0..20 {
            loop {
                let (version, text) = tokens.read().unwrap().unwrap();
                if tokens.replace(Some(version), &format!("{text}+")).unwrap() {
                    break;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| adds(&one));
        scope.spawn(|| adds(&two));
    });
    assert_eq!(one.read().unwrap(), Some((41, format!("{{}}{}", "+".repeat(40)))));
    assert_eq!(two.version().unwrap(), Some(41));
    // From a file with another key, as an administrator may have it: refused as a whole.
    let other = TempDir::new();
    assert!(open(&url, with_keys(&new_key(&other))).is_err());
}
