// What mp4box.js reads of a file: a line for each sample, with its track, codec, clock, times and length.
import fs from 'node:fs';

const [library, path] = process.argv.slice(2);
const {createFile} = await import(library);
const file = createFile();
file.onError = (module, message) => { throw new Error(`${module}: ${message}`); };
file.onReady = (info) => {
	for (const track of info.tracks) {
		file.setExtractionOptions(track.id, track, {nbSamples: 1});
	}
	file.onSamples = (id, track, samples) => {
		for (const {dts, cts, is_sync, data} of samples) {
			console.log(id, track.codec, track.timescale, dts, cts, is_sync ? 1 : 0, data.length);
		}
	};
	file.start();
};
const {buffer, byteOffset, length} = fs.readFileSync(path);
file.appendBuffer(Object.assign(buffer.slice(byteOffset, byteOffset + length), {fileStart: 0}));
file.flush();
