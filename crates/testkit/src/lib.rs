//! Fake Ray dashboards with injectable faults.
