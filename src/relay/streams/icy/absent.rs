//! In the place of `icy` in a program that is built without `icecast`: no listener gets titles
//! within the media.

use std::num::NonZeroU32;

use super::Stream;
use crate::gather::Gather;
use crate::http::{IcyMetadata, ResponseHead};
use crate::relay::{ConnectionId, StreamId};
use crate::stream::{StreamBuffer, ViewerId};

#[derive(Clone, Copy)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum IcyPosition {}

#[derive(Default)]
pub(super) struct IcyBlock {}

impl IcyPosition {
    pub fn begin(_: &Stream, _: IcyMetadata) -> Option<IcyPosition> {
        None
    }

    pub fn has_block(self) -> bool {
        match self {}
    }

    pub fn media_max(self, _: NonZeroU32) -> usize {
        match self {}
    }

    pub fn content_bytes(self, _: usize) -> usize {
        match self {}
    }

    pub fn media_bytes(self, _: usize) -> usize {
        match self {}
    }

    pub fn send_block(&mut self, _: usize) -> (usize, usize) {
        match *self {}
    }

    pub fn send_content(&mut self, _: usize) -> usize {
        match *self {}
    }

    pub fn lend<'a>(
        self,
        _: (&'a StreamBuffer<ConnectionId>, ViewerId<ConnectionId>),
        _: usize,
        _: &mut Gather<'a>,
        _: usize,
    ) -> usize {
        match self {}
    }

    #[cfg(feature = "handover")]
    pub fn fits(&self) -> bool {
        match *self {}
    }
}

impl IcyBlock {
    pub fn prepare(&mut self, icy: &mut IcyPosition, _: (StreamId, &Stream), _: bool) {
        match *icy {}
    }

    pub fn bytes(&self) -> &[u8] {
        &[]
    }
}

pub(super) fn describe(head: ResponseHead, _: &Stream, _: IcyMetadata) -> ResponseHead {
    head
}
