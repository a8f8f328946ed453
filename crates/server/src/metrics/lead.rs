//! What happens between replicas: labels, so the lists are fixed.

/// A change of the lead, as this replica saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Led {
    /// It took the lead.
    Taken,
    /// It gave the lead up.
    Resigned,
    /// It lost the lead.
    Lost,
}

impl Led {
    pub(crate) const ALL: [Led; 3] = [Led::Taken, Led::Resigned, Led::Lost];

    /// The stable word for the label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Led::Taken => "taken",
            Led::Resigned => "resigned",
            Led::Lost => "lost",
        }
    }
}

/// What became of a request to a replica that does not lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forwarded {
    /// The database had the answer.
    Stored,
    /// The leader answered.
    Answered,
    /// Whoever was asked does not lead.
    NoLeader,
    /// The leader went away.
    LeaderLost,
}

impl Forwarded {
    pub(crate) const ALL: [Forwarded; 4] =
        [Forwarded::Stored, Forwarded::Answered, Forwarded::NoLeader, Forwarded::LeaderLost];

    /// The stable word for the label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Forwarded::Stored => "stored",
            Forwarded::Answered => "answered",
            Forwarded::NoLeader => "no_leader",
            Forwarded::LeaderLost => "leader_lost",
        }
    }
}
