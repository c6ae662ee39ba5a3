//! Files in both formats: valid ones are read as intended, the reader ends on any other, and accepts and refuses them as
//! libpcap does.

mod libpcap;
mod made;
mod read;
