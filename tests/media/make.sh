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
# The other codecs that are carried from one container to another: smaller, for those tests alone.
both="-f lavfi -i testsrc=size=64x48:rate=12 -f lavfi -i sine=440 -t 1.5 -pix_fmt yuv420p"
h265="-c:v libx265 -preset veryfast -b:v 30k -x265-params log-level=error:keyint=12:info=0 -tag:v hvc1"
dolby="-b:a 32k -ar 48000"
fragments="-movflags frag_keyframe+empty_moov+default_base_moof+delay_moov"
make -f lavfi -i testsrc=size=64x48:rate=25 -t 1.5 -pix_fmt yuv420p -c:v mpeg2video -b:v 60k -g 12 mpeg2.ts
make $both $h265 -c:a ac3 $dolby h265.ts
make $both $h265 -c:a ac3 $dolby -f matroska -live 1 h265.mkv
make $both $h265 -c:a eac3 $dolby $fragments h265.mp4
make $both -c:v libaom-av1 -cpu-used 8 -usage realtime -b:v 30k -g 12 -c:a libopus -b:a 16k $fragments av1.mp4
make $both -c:v libvpx-vp9 -b:v 30k -g 12 -deadline realtime -cpu-used 8 -c:a libmp3lame -b:a 32k $fragments vp9.mp4
