//! The wire types of the native API.
