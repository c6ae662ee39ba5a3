//! A switch that is never stopped: reloads, guests that come, go and attack, and interfaces that change, while others' frames
//! keep arriving.

mod bridge;
mod calls;
mod control;
mod controllers;
mod events;
mod flipped;
mod floods;
mod go;
mod guests;
mod holes;
mod hostile;
mod interfaces;
mod reboot;
mod reconnect;
mod reload;
mod rings;
mod sessions;
mod soak;
mod sockets;
mod taps;
