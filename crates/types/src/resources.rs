//! Amounts of CPU, GPU, memory and any other resource that Ray counts.
//!
//! Fixed-point as in Ray (1/10,000), so that a million reservations and releases add up to exactly zero.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{IdError, ResourceName, Share};

/// A non-negative amount, in 1/10,000.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(u64);

/// Why an amount was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number at all.
    #[error("{text:?} is not an amount\n  hint: write a number, or for memory a size such as \"16GiB\"")]
    NotANumber {
        /// The first characters of the input.
        text: String,
    },
    /// Below zero.
    #[error("{value} is negative\n  hint: amounts start at 0")]
    Negative {
        /// The given value.
        value: f64,
    },
    /// Ray itself overflows at 10^15.
    #[error("{value:e} is too large\n  hint: amounts must stay below 10^15")]
    TooLarge {
        /// The given value.
        value: f64,
    },
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Quantity = Quantity(0);
    /// A number of MiB, for constants.
    #[must_use]
    pub const fn mebibytes(count: u32) -> Quantity {
        Quantity((count as u64 * (1 << 20)) * Self::SCALE)
    }

    /// Parts per unit.
    pub(crate) const SCALE: u64 = 10_000;
    /// Ray overflows at 10^15 and then runs the work anywhere.
    pub const LIMIT: u64 = 1_000_000_000_000_000;
    /// From here on only whole numbers are kept, so that a number written as JSON is read back
    /// exactly (10^9 × 10^4 stays below 2^53).
    const WHOLE_FROM: f64 = 1e9;

    /// A whole number of units.
    ///
    /// # Errors
    /// If it is 10^15 or more.
    #[expect(clippy::cast_precision_loss, reason = "only the error's text")]
    pub fn whole(value: u64) -> Result<Self, QuantityError> {
        if value >= Self::LIMIT {
            return Err(QuantityError::TooLarge { value: value as f64 });
        }
        Ok(Self(value * Self::SCALE))
    }

    /// Any number of units, rounded to Ray's granularity. A positive amount never rounds to zero.
    ///
    /// # Errors
    /// For NaN, infinite, negative and too large values.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "range checked"
    )]
    pub fn from_f64(value: f64) -> Result<Self, QuantityError> {
        if value.is_nan() {
            return Err(QuantityError::NotANumber { text: "NaN".into() });
        }
        if value < 0.0 {
            return Err(QuantityError::Negative { value });
        }
        if value >= Self::LIMIT as f64 {
            return Err(QuantityError::TooLarge { value });
        }
        if value >= Self::WHOLE_FROM {
            return Self::whole(value.round() as u64);
        }
        let parts = (value * Self::SCALE as f64).round() as u64;
        Ok(Self(if parts == 0 && value > 0.0 { 1 } else { parts }))
    }

    /// A number, or a number with a unit: `16GiB`, `500MB`, `0.5`.
    ///
    /// # Errors
    /// As [`Quantity::from_f64`], and for any other text.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let error = || QuantityError::NotANumber { text: text.chars().take(40).collect() };
        let trimmed = text.trim();
        let digits =
            trimmed.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-'))).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let factor: f64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "k" | "kb" => 1e3,
            "m" | "mb" => 1e6,
            "g" | "gb" => 1e9,
            "t" | "tb" => 1e12,
            "ki" | "kib" => 1024.0,
            "mi" | "mib" => 1024.0 * 1024.0,
            "gi" | "gib" => 1024.0 * 1024.0 * 1024.0,
            "ti" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
            _ => return Err(error()),
        };
        Self::from_f64(number.parse::<f64>().map_err(|_| error())? * factor)
    }

    /// In units; exact up to 2^53 parts, else the nearest double.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "documented")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::SCALE as f64
    }

    /// In 1/10,000 of a unit, for ratios without rounding.
    #[must_use]
    pub fn parts(self) -> u64 {
        self.0
    }

    /// The opposite of [`Quantity::parts`].
    #[must_use]
    pub fn from_parts(parts: u64) -> Quantity {
        Quantity(parts)
    }

    /// This as a fraction of `whole`, which must not be zero.
    #[must_use]
    #[inline]
    pub fn share_of(self, whole: Quantity) -> f64 {
        // Signed numbers convert in one instruction, unsigned ones in many.
        #[expect(clippy::cast_precision_loss, reason = "a ratio needs no more than 53 bits")]
        let number = |q: Quantity| i64::try_from(q.0).unwrap_or(i64::MAX) as f64;
        number(self) / number(whole)
    }

    /// This share of the amount, rounded down.
    #[must_use]
    pub fn part(self, share: Share) -> Quantity {
        Quantity(share.part_of(self.0))
    }

    /// Is the amount zero?
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The same, for serde.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it")]
    pub(crate) fn is_nothing(&self) -> bool {
        self.is_zero()
    }

    /// The sum; the largest possible amount if the sum would not fit.
    #[must_use]
    pub fn plus(self, other: Quantity) -> Quantity {
        Quantity(self.0.saturating_add(other.0))
    }

    /// The difference; never below zero.
    #[must_use]
    pub fn minus(self, other: Quantity) -> Quantity {
        Quantity(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(Self::SCALE) { (self.0 / Self::SCALE).fmt(f) } else { self.as_f64().fmt(f) }
    }
}

impl Serialize for Quantity {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(Self::SCALE) {
            to.serialize_u64(self.0 / Self::SCALE)
        } else {
            to.serialize_f64(self.as_f64())
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Whole(u64),
            Number(f64),
            Text(String),
        }
        match Raw::deserialize(from)? {
            Raw::Whole(value) => Quantity::whole(value),
            Raw::Number(value) => Quantity::from_f64(value),
            Raw::Text(text) => Quantity::parse(&text),
        }
        .map_err(serde::de::Error::custom)
    }
}

/// A resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Dimension {
    /// Logical CPUs.
    Cpu,
    /// GPUs.
    Gpu,
    /// Bytes of memory.
    Memory,
    /// Any other resource, as Ray spells it.
    Custom(ResourceName),
}

impl Dimension {
    /// Ray's spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Dimension::Cpu => "CPU",
            Dimension::Gpu => "GPU",
            Dimension::Memory => "memory",
            Dimension::Custom(name) => name.as_str(),
        }
    }

    /// An amount of this resource for people: memory in binary units.
    #[must_use]
    pub fn show(&self, amount: Quantity) -> String {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        if *self != Dimension::Memory {
            return amount.to_string();
        }
        let (mut value, mut unit) = (amount.as_f64(), 0);
        while value >= 1024.0 && unit < UNITS.len() - 1 {
            value /= 1024.0;
            unit += 1;
        }
        let text = format!("{value:.1}");
        format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<Dimension> for String {
    fn from(dimension: Dimension) -> String {
        dimension.as_str().to_owned()
    }
}

impl TryFrom<String> for Dimension {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Ok(match text.as_str() {
            "CPU" => Dimension::Cpu,
            "GPU" => Dimension::Gpu,
            "memory" => Dimension::Memory,
            _ => Dimension::Custom(ResourceName::new(text)?),
        })
    }
}

/// Why a set of resources was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ResourcesError {
    /// One amount is not usable.
    #[error("resource {name}: {source}")]
    Amount {
        /// The resource, shortened.
        name: String,
        /// The error of the amount.
        source: QuantityError,
    },
    /// One name is not usable.
    #[error(transparent)]
    Name(#[from] IdError),
    /// `cpu` would be a custom resource that no cluster has.
    #[error(
        "unknown resource {given:?}\n  hint: did you mean {meant:?}? Ray's names are CPU, GPU and memory"
    )]
    Misspelt {
        /// The given name.
        given: String,
        /// The name that was probably meant.
        meant: &'static str,
    },
    /// More names than any work needs.
    #[error("{count} different resources, at most {max} are allowed")]
    TooMany {
        /// How many were given.
        count: usize,
        /// How many are allowed.
        max: usize,
    },
}

/// A set of amounts. Written as Ray writes it: `{"CPU": 4, "memory": 17179869184}`.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, Quantity>", try_from = "BTreeMap<String, Quantity>")]
pub struct Resources {
    /// Logical CPUs.
    pub cpu: Quantity,
    /// GPUs.
    pub gpu: Quantity,
    /// Bytes of memory.
    pub memory: Quantity,
    /// Sorted by name, without zeros, so that equal sets compare equal.
    custom: Vec<(ResourceName, Quantity)>,
}

impl Resources {
    /// Nothing.
    pub const NONE: Resources =
        Resources { cpu: Quantity::ZERO, gpu: Quantity::ZERO, memory: Quantity::ZERO, custom: Vec::new() };
    /// The most custom resources one set may name.
    pub const MAX_CUSTOM: usize = 64;

    /// From named amounts as users give them.
    ///
    /// # Errors
    /// With the resource and what is wrong with it.
    pub fn from_amounts<K: AsRef<str>>(
        amounts: impl IntoIterator<Item = (K, f64)>,
    ) -> Result<Self, ResourcesError> {
        let mut resources = Self::default();
        for (name, value) in amounts {
            let name = name.as_ref();
            let amount = Quantity::from_f64(value)
                .map_err(|source| ResourcesError::Amount { name: name.chars().take(40).collect(), source })?;
            resources.set(name, amount)?;
        }
        Ok(resources)
    }

    /// From text as people type it: `cpu=16,memory=32GiB`, or JSON as Ray writes it.
    ///
    /// # Errors
    /// With the resource and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ResourcesError> {
        let wrong =
            |name: &str, source| ResourcesError::Amount { name: name.chars().take(40).collect(), source };
        let not_a_number = |text: &str| QuantityError::NotANumber { text: text.chars().take(40).collect() };
        let mut resources = Self::default();
        if text.trim_start().starts_with('{') {
            let amounts: BTreeMap<String, Quantity> =
                serde_json::from_str(text).map_err(|_| wrong("list", not_a_number(text)))?;
            return amounts.try_into();
        }
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, amount) = part.split_once('=').ok_or_else(|| wrong(part, not_a_number("")))?;
            let name = match name.trim() {
                name if name.eq_ignore_ascii_case("cpu") => "CPU",
                name if name.eq_ignore_ascii_case("gpu") => "GPU",
                name => name,
            };
            let amount = Quantity::parse(amount).map_err(|source| wrong(name, source))?;
            resources.set(name, amount)?;
        }
        Ok(resources)
    }

    /// Sets one amount by its Ray name.
    ///
    /// # Errors
    /// For an invalid name, or a misspelt `cpu`, `gpu`, `Memory`.
    pub fn set(&mut self, name: &str, amount: Quantity) -> Result<(), ResourcesError> {
        match name {
            "CPU" => self.cpu = amount,
            "GPU" => self.gpu = amount,
            "memory" => self.memory = amount,
            other => {
                let meant = match other.to_ascii_lowercase().as_str() {
                    "cpu" | "cpus" | "num_cpus" => Some("CPU"),
                    "gpu" | "gpus" | "num_gpus" => Some("GPU"),
                    "memory" | "mem" => Some("memory"),
                    _ => None,
                };
                if let Some(meant) = meant {
                    return Err(ResourcesError::Misspelt { given: other.to_owned(), meant });
                }
                self.set_custom(ResourceName::new(other)?, amount)?;
            }
        }
        Ok(())
    }

    fn set_custom(&mut self, name: ResourceName, amount: Quantity) -> Result<(), ResourcesError> {
        match self.custom.binary_search_by(|(n, _)| n.cmp(&name)) {
            Ok(at) if amount.is_zero() => {
                self.custom.remove(at);
            }
            Ok(at) => self.custom[at].1 = amount,
            Err(_) if amount.is_zero() => {}
            Err(_) if self.custom.len() >= Self::MAX_CUSTOM => {
                return Err(ResourcesError::TooMany { count: self.custom.len() + 1, max: Self::MAX_CUSTOM });
            }
            Err(at) => self.custom.insert(at, (name, amount)),
        }
        Ok(())
    }

    /// The amount of a custom resource.
    #[must_use]
    pub fn custom(&self, name: &ResourceName) -> Quantity {
        self.custom.binary_search_by(|(n, _)| n.cmp(name)).map_or(Quantity::ZERO, |at| self.custom[at].1)
    }

    /// The amount of any resource.
    #[must_use]
    pub fn get(&self, dimension: &Dimension) -> Quantity {
        match dimension {
            Dimension::Cpu => self.cpu,
            Dimension::Gpu => self.gpu,
            Dimension::Memory => self.memory,
            Dimension::Custom(name) => self.custom(name),
        }
    }

    /// Every amount that is not zero.
    pub fn iter(&self) -> impl Iterator<Item = (Dimension, Quantity)> + '_ {
        [(Dimension::Cpu, self.cpu), (Dimension::Gpu, self.gpu), (Dimension::Memory, self.memory)]
            .into_iter()
            .filter(|(_, amount)| !amount.is_zero())
            .chain(self.custom.iter().map(|(name, amount)| (Dimension::Custom(name.clone()), *amount)))
    }

    /// Is every amount zero?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cpu.is_zero() && self.gpu.is_zero() && self.memory.is_zero() && self.custom.is_empty()
    }

    /// The first resource of which `self` asks for more than the total.
    #[inline]
    #[must_use]
    pub fn first_beyond_total(&self, total: &Resources) -> Option<Dimension> {
        self.first_beyond_of([total.cpu, total.gpu, total.memory], |name| total.custom(name))
    }

    /// The first resource of which `self` asks for more than there is room for. `room` gets a
    /// function that reads one resource from any set.
    #[inline(always)]
    #[must_use]
    pub fn first_short(
        &self,
        room: impl Fn(&dyn Fn(&Resources) -> Quantity) -> Quantity,
    ) -> Option<Dimension> {
        let left = [room(&|set| set.cpu), room(&|set| set.gpu), room(&|set| set.memory)];
        self.first_beyond_of(left, |name| room(&|set| set.custom(name)))
    }

    #[inline]
    fn first_beyond_of(
        &self,
        room: [Quantity; 3],
        custom: impl Fn(&ResourceName) -> Quantity,
    ) -> Option<Dimension> {
        if self.cpu > room[0] {
            return Some(Dimension::Cpu);
        }
        if self.gpu > room[1] {
            return Some(Dimension::Gpu);
        }
        if self.memory > room[2] {
            return Some(Dimension::Memory);
        }
        let beyond = self.custom.iter().find(|(name, amount)| *amount > custom(name));
        beyond.map(|(name, _)| Dimension::Custom(name.clone()))
    }

    /// Has a sum reached the largest possible amount?
    #[must_use]
    pub fn is_saturated(&self) -> bool {
        let largest = Quantity(u64::MAX);
        [self.cpu, self.gpu, self.memory].contains(&largest) || self.custom.iter().any(|(_, n)| *n == largest)
    }

    /// Adds every amount of `other`.
    pub fn add(&mut self, other: &Resources) {
        self.combine(other, Quantity::plus);
    }

    /// Subtracts every amount of `other`; no amount goes below zero.
    pub fn subtract(&mut self, other: &Resources) {
        self.combine(other, Quantity::minus);
    }

    /// So many times as much of everything.
    #[must_use]
    pub fn times(&self, count: u32) -> Resources {
        let times = |amount: Quantity| Quantity(amount.0.saturating_mul(u64::from(count)));
        let custom = self.custom.iter().map(|(name, amount)| (name.clone(), times(*amount)));
        let custom = custom.filter(|(_, amount)| !amount.is_zero()).collect();
        Resources { cpu: times(self.cpu), gpu: times(self.gpu), memory: times(self.memory), custom }
    }

    /// Raises each resource to at least the amount in `other`.
    pub fn raise_to(&mut self, other: &Resources) {
        self.combine(other, Quantity::max);
    }

    fn combine(&mut self, other: &Resources, op: fn(Quantity, Quantity) -> Quantity) {
        self.cpu = op(self.cpu, other.cpu);
        self.gpu = op(self.gpu, other.gpu);
        self.memory = op(self.memory, other.memory);
        for (name, amount) in &other.custom {
            match self.custom.binary_search_by(|(n, _)| n.cmp(name)) {
                Ok(at) => self.custom[at].1 = op(self.custom[at].1, *amount),
                // Sums of valid sets may name more resources than one set may.
                Err(at) => self.custom.insert(at, (name.clone(), op(Quantity::ZERO, *amount))),
            }
        }
        if !other.custom.is_empty() {
            self.custom.retain(|(_, amount)| !amount.is_zero());
        }
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.pad("nothing");
        }
        let parts: Vec<_> = self
            .iter()
            .map(|(dimension, amount)| format!("{dimension} {}", dimension.show(amount)))
            .collect();
        f.pad(&parts.join(", "))
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl From<Resources> for BTreeMap<String, Quantity> {
    fn from(resources: Resources) -> Self {
        resources.iter().map(|(dimension, amount)| (dimension.into(), amount)).collect()
    }
}

impl TryFrom<BTreeMap<String, Quantity>> for Resources {
    type Error = ResourcesError;

    fn try_from(map: BTreeMap<String, Quantity>) -> Result<Self, ResourcesError> {
        let mut resources = Resources::default();
        for (name, amount) in map {
            resources.set(&name, amount)?;
        }
        Ok(resources)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bad_amounts_are_refused_by_name() {
        for bad in [f64::NAN, -1.0, f64::INFINITY, f64::NEG_INFINITY, 1e15, f64::MAX] {
            let error = Resources::from_amounts([("GPU", bad)]).unwrap_err().to_string();
            assert!(error.starts_with("resource GPU: "), "{error}");
        }
    }

    /// Stored amounts must be readable: a control plane has nothing else to start from.
    #[test]
    fn an_amount_that_rounds_to_too_much_is_too_much() {
        let largest = 999_999_999_999_999.0;
        assert_eq!(Quantity::from_f64(largest).unwrap(), Quantity::whole(Quantity::LIMIT - 1).unwrap());
        for value in [largest + 0.5, largest + 0.875] {
            assert!(Quantity::from_f64(value).is_err(), "{value}");
        }
    }

    #[test]
    fn a_lower_case_cpu_is_a_mistake_not_a_custom_resource() {
        let error = Resources::from_amounts([("cpu", 1.0)]).unwrap_err().to_string();
        assert!(error.contains("did you mean \"CPU\""), "{error}");
    }

    #[test]
    fn memory_sizes_are_read_with_units() {
        let resources: Resources =
            serde_json::from_str(r#"{"CPU": 0.5, "memory": "16GiB", "my_custom_res": 2}"#).unwrap();
        assert_eq!(resources.memory, Quantity::whole(16 << 30).unwrap());
        assert_eq!(resources.to_string(), "CPU 0.5, memory 16 GiB, my_custom_res 2");
        assert!(Quantity::parse("16 apples").is_err());
        assert!(Quantity::parse("1e400").is_err());
    }

    #[test]
    fn resources_are_read_as_people_type_them() {
        let typed = Resources::parse("cpu=16, memory=32GiB,licence=0.5").unwrap();
        assert_eq!(typed.to_string(), "CPU 16, memory 32 GiB, licence 0.5");
        assert_eq!(Resources::parse(r#"{"CPU": 16, "memory": "32GiB", "licence": 0.5}"#).unwrap(), typed);
        assert!(Resources::parse("").unwrap().is_empty());
        for bad in ["cpu", "cpu=", "cpu=much", "cpu=-1", "{", "mem=1", "=1"] {
            assert!(Resources::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn reserving_and_releasing_leaves_nothing_behind() {
        let tenth = Resources::from_amounts([("CPU", 0.1), ("x", 0.3)]).unwrap();
        let mut sum = Resources::default();
        (0..1_000_000).for_each(|_| sum.add(&tenth));
        assert_eq!(sum.cpu, Quantity::whole(100_000).unwrap());
        (0..1_000_000).for_each(|_| sum.subtract(&tenth));
        assert_eq!(sum, Resources::default());
    }

    #[test]
    fn more_names_than_allowed_are_refused() {
        let many = (0..100).map(|i| (format!("r{i}"), 1.0));
        assert!(matches!(Resources::from_amounts(many), Err(ResourcesError::TooMany { .. })));
    }

    proptest! {
        #[test]
        fn any_number_is_an_amount_or_an_error(value in any::<f64>()) {
            if let Ok(amount) = Quantity::from_f64(value) {
                let json = serde_json::to_string(&amount).unwrap();
                prop_assert_eq!(serde_json::from_str::<Quantity>(&json).unwrap(), amount);
            }
        }

        #[test]
        fn any_text_is_an_amount_or_an_error(text in ".{0,40}") { let _ = Quantity::parse(&text); }
    }
}
