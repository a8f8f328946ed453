//! What every backend must do. Each rule is one function over a [`support::TestStore`],
//! run for every backend there is.

#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

mod concurrent;
mod crash;
mod earlier;
mod history;
mod jobs;
mod list;
mod on_disk;
mod packages;
mod random;
mod support;

/// Makes a test of each rule for each backend.
#[macro_export]
macro_rules! for_every_backend {
    ($($(#[$doc:meta])* fn $rule:ident($store:ident: $ty:ty $(, $options:expr)?) $body:block)+) => {
        $(
            mod $rule {
                #[allow(unused_imports, reason = "not every rule needs them")]
                use super::*;

                fn options() -> multicluster_store::Options {
                    #[allow(unused_variables, reason = "the default, unless the rule has its own")]
                    let options = multicluster_store::Options::default();
                    $(let options = $options;)?
                    options
                }

                fn rule($store: &mut $ty) $body

                #[test]
                fn memory() {
                    rule(&mut $crate::support::TestStore::memory(options()));
                }

                #[test]
                fn sqlite() {
                    rule(&mut $crate::support::TestStore::sqlite(options()));
                }
            }
        )+
    };
}
