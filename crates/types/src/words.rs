//! Closed sets of words. API, metrics, logs and stored records use the same words, declared here once.

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
            /// All variants, in the order of their declaration.
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
        /// It answers, and refuses our token.
        Unauthorized = "unauthorized",
    }
}

words! {
    /// The position of a cluster's circuit breaker.
    pub enum CircuitKind {
        /// Work passes.
        Closed = "closed",
        /// No work passes.
        Open = "open",
        /// One probe passes.
        HalfOpen = "half_open",
    }
}

words! {
    /// The source of a cluster or a policy: a reload only removes those that came from a file.
    pub enum Source {
        /// `cluster.yaml`.
        File = "file",
        /// The API.
        Api = "api",
    }
}

words! {
    /// The kind of work in a queue.
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
        /// It accepts no new work, and is to become empty.
        Draining = "draining",
        Uncordoned = "uncordoned",
        Drained = "drained",
        Healthy = "healthy",
        Unhealthy = "unhealthy",
        /// It answers, and refuses our token.
        Unauthorized = "unauthorized",
        /// Its head restarted: earlier runs are gone.
        Restarted = "restarted",
        BreakerOpened = "breaker_opened",
        BreakerHalfOpen = "breaker_half_open",
        BreakerClosed = "breaker_closed",
        /// It was asked to grow, and did not.
        NotGrown = "not_grown",
    }
}

words! {
    /// The scheduler's verdict on a cluster.
    pub enum VerdictKind {
        /// The cluster got the work.
        Chosen = "chosen",
        /// The cluster could have run the work, but another one was better.
        Eligible = "eligible",
        /// The cluster could not accept the work.
        Rejected = "rejected",
    }
}
