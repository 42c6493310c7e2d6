#!/bin/sh
# Makes the small real files of this folder anew, with ffmpeg. They are kept in the repository, so this is seldom needed.
set -e
cd "$(dirname "$0")"
both="-f lavfi -i testsrc=size=128x96:rate=25 -f lavfi -i sine=440 -t 2.4"
sound="-f lavfi -i sine=440 -t 2.4"
h264="-c:v libx264 -preset veryfast -b:v 60k -g 25"
make() { ffmpeg -y -v error "$@"; }
make $both -c:v libvpx -b:v 60k -g 25 -deadline realtime -c:a libvorbis -b:a 32k -f webm -live 1 vp8.webm
make $both -c:v libvpx-vp9 -b:v 60k -g 25 -deadline realtime -cpu-used 8 -c:a libopus -b:a 16k -f webm -live 1 vp9.webm
make $both $h264 -c:a aac -b:a 32k -f matroska -live 1 h264.mkv
make $both $h264 -bf 2 -c:a aac -b:a 32k -movflags frag_keyframe+empty_moov+default_base_moof h264.mp4
make $both $h264 -c:a aac -b:a 32k -f flv h264.flv
make $both $h264 -c:a aac -b:a 32k h264.ts
make $both -c:v libtheora -b:v 60k -g 25 -c:a libvorbis -b:a 32k theora.ogg
make $sound -c:a libopus -b:a 16k opus.ogg
make $sound -c:a libmp3lame -b:a 32k sound.mp3
make $sound -c:a aac -b:a 32k sound.aac
