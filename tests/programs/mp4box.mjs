// What mp4box.js reads of a file: a line for each sample, with its track, codec, clock, times and length.
import fs from 'node:fs';

const [library, path] = process.argv.slice(2);
const {createFile} = await import(library);
const file = createFile();
// For each track the newest fragment, and how much later its time is.
const fragments = {};
file.onError = (module, message) => { throw new Error(`${module}: ${message}`); };
file.onReady = (info) => {
	for (const track of info.tracks) {
		file.setExtractionOptions(track.id, track, {nbSamples: 1});
	}
	file.onSamples = (id, track, samples) => {
		for (const {moof_number, dts, cts, is_sync, data} of samples) {
			if (moof_number !== fragments[id]?.number) {
				// It adds durations up from the first fragment on. Each fragment has its own time.
				const traf = file.moofs[moof_number - 1].trafs.find((traf) => traf.tfhd.track_id === id);
				fragments[id] = {number: moof_number, late: traf.tfdt.baseMediaDecodeTime - dts};
			}
			const {late} = fragments[id];
			console.log(id, track.codec, track.timescale, dts + late, cts + late, is_sync ? 1 : 0, data.length);
		}
	};
	file.start();
};
const {buffer, byteOffset, length} = fs.readFileSync(path);
file.appendBuffer(Object.assign(buffer.slice(byteOffset, byteOffset + length), {fileStart: 0}));
file.flush();
