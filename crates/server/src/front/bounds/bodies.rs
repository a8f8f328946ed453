//! Limits the memory for request bodies while they come in.

use multicluster_types::Owner;

use super::{Bounds, places::Held};
use crate::{front::access::Caller, metrics::Shed, problem::Problem};

/// Bodies of up to this size are not counted: even one per connection costs little, and a
/// submission of one job need not wait for large requests.
const SMALL: usize = 16 << 10;

/// The memory for the body of one request, until it is dropped.
pub(crate) struct BodyRoom {
    bounds: Bounds,
    caller: Caller,
    size: usize,
    place: Option<Held<Owner>>,
}

impl BodyRoom {
    pub(super) fn new(bounds: &Bounds, caller: &Caller) -> Self {
        Self { bounds: bounds.clone(), caller: caller.clone(), size: 0, place: None }
    }

    /// More bytes came in.
    pub(crate) fn grow(&mut self, more: usize) -> Result<(), Problem> {
        self.size += more;
        if self.size <= SMALL {
            return Ok(());
        }
        let (bounds, caller) = (&self.bounds, &self.caller);
        let grown = match &mut self.place {
            Some(place) => place.grow(more),
            none => {
                bounds.0.bodies.enter_with(caller.owner.clone(), self.size).map(|place| *none = Some(place))
            }
        };
        let what = "bytes of requests are in memory";
        grown.map_err(|full| bounds.full(full, caller, Shed::Bodies, what))
    }
}
