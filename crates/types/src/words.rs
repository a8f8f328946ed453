//! Closed sets of words. API, metrics, logs and stored records write the same word, declared
//! here once.

/// An enum whose variants are words.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$fact:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $($(#[$fact])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The stable word for APIs, metrics and logs.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

pub(crate) use words;

words! {
    /// Does a cluster answer?
    #[allow(missing_docs, reason = "the words say it")]
    pub enum HealthKind {
        /// Before its first answer.
        NeverSeen = "never_seen",
        Healthy = "healthy",
        Unhealthy = "unhealthy",
    }
}

words! {
    /// Where the circuit breaker of a cluster stands.
    pub enum CircuitKind {
        /// Work passes.
        Closed = "closed",
        /// Nothing passes.
        Open = "open",
        /// One probe passes.
        HalfOpen = "half_open",
    }
}

words! {
    /// Who registered a cluster or a policy: a reload only removes what a file brought.
    pub enum Source {
        /// `cluster.yaml`.
        File = "file",
        /// The API.
        Api = "api",
    }
}

words! {
    /// What waits in a queue.
    pub enum QueueKind {
        /// Jobs.
        Jobs = "jobs",
        /// Tasks and actors.
        Tasks = "tasks",
    }
}

words! {
    /// What changed about a cluster.
    #[allow(missing_docs, reason = "the words say it")]
    pub enum ClusterChangeKind {
        Registered = "registered",
        Changed = "changed",
        /// It will be removed once it is empty.
        Leaving = "leaving",
        Removed = "removed",
        Cordoned = "cordoned",
        Uncordoned = "uncordoned",
        Drained = "drained",
        Healthy = "healthy",
        Unhealthy = "unhealthy",
        /// Its head restarted: what ran before is gone.
        Restarted = "restarted",
        BreakerOpened = "breaker_opened",
        BreakerHalfOpen = "breaker_half_open",
        BreakerClosed = "breaker_closed",
    }
}

words! {
    /// What the scheduler thought of a cluster.
    pub enum VerdictKind {
        /// It got the work.
        Chosen = "chosen",
        /// It could have taken the work, but another one was better.
        Eligible = "eligible",
        /// It could not take the work.
        Rejected = "rejected",
    }
}
