//! One fake cluster, shared by the handle that tests hold and the server that answers for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::fault::{Endpoint, Fault, Faults};
use crate::options::FakeOptions;
use crate::state::State;

pub(crate) struct Cluster {
    state: Mutex<State>,
    faults: Mutex<Faults>,
    counts: Mutex<BTreeMap<Endpoint, u64>>,
    /// No request gets through. In a fleet the listener is shared and cannot close.
    down: AtomicBool,
    /// Changes when all connections must be cut.
    cut: watch::Sender<u64>,
    token: Mutex<Option<String>>,
    // These never change, and are read without a lock.
    pub(crate) name: String,
    pub(crate) max_body: usize,
    pub(crate) tail_poll: Duration,
    pub(crate) tail_linger: Duration,
}

impl Cluster {
    pub(crate) fn new(options: FakeOptions) -> Arc<Self> {
        Arc::new(Self {
            name: options.name.clone(),
            token: Mutex::new(options.token.clone()),
            max_body: options.max_body,
            tail_poll: options.tail_poll,
            tail_linger: options.tail_linger,
            state: Mutex::new(State::new(options)),
            faults: Mutex::default(),
            counts: Mutex::default(),
            down: AtomicBool::new(false),
            cut: watch::Sender::new(0),
        })
    }

    /// The state as of now.
    pub(crate) fn now(&self) -> (Instant, MutexGuard<'_, State>) {
        let mut state = self.state.lock().expect(NO_PANIC);
        // Read under the lock: time must not go back from one caller to the next.
        let now = Instant::now();
        state.advance(now);
        (now, state)
    }

    /// The token that requests must carry.
    pub(crate) fn token(&self) -> MutexGuard<'_, Option<String>> {
        self.token.lock().expect(NO_PANIC)
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect(NO_PANIC)
    }

    /// Counts a request, and returns the fault for it.
    pub(crate) fn arrive(&self, endpoint: Endpoint) -> Option<Fault> {
        *self.counts.lock().expect(NO_PANIC).entry(endpoint).or_default() += 1;
        self.faults().take(endpoint)
    }

    pub(crate) fn counts(&self) -> BTreeMap<Endpoint, u64> {
        self.counts.lock().expect(NO_PANIC).clone()
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::SeqCst)
    }

    pub(crate) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
        if down {
            self.cut_off();
        }
    }

    /// Cuts all requests under way.
    pub(crate) fn cut_off(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// Resolves at the next [`cut_off`](Self::cut_off).
    pub(crate) fn cut(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut cut = self.cut.subscribe();
        async move {
            // An error means that the fake is gone, which is as good as cut off.
            let _ = cut.changed().await;
        }
    }
}

const NO_PANIC: &str = "nothing panics while it holds the lock, except a test's own rule";
