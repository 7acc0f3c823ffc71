//! What the local cluster gives to pods, shown by real pods: everything that later tests take for granted.

mod access;
mod network;
mod pods;
mod templates;
mod words;
