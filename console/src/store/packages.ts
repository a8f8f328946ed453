// Uploads a zip as the working directory of a job: once, under a name made from its content.

import { ApiError } from '../api/client';
import { t } from '../i18n';

/** The address for `working_dir`. */
export async function upload(file: File, progress: (share: number) => void): Promise<string> {
  const bytes = await file.arrayBuffer();
  if (!isZip(new Uint8Array(bytes))) throw new ApiError(0, 'no_zip', t('submit.notZip', { name: file.name }));
  const name = `_ray_pkg_${await nameOf(bytes)}.zip`;
  const path = `/api/packages/gcs/${name}`;
  const there = await fetch(path).catch(() => undefined);
  if (!there?.ok) await send(path, bytes, progress);
  return `gcs://${name}`;
}

/** `PK`, and what follows in a file, or in an empty one. */
export function isZip(bytes: Uint8Array): boolean {
  return bytes[0] === 0x50 && bytes[1] === 0x4b && (bytes[2] === 3 || bytes[2] === 5);
}

/** Browsers have no digests on pages without TLS: there, the name is random. */
async function nameOf(bytes: ArrayBuffer): Promise<string> {
  // oxlint-disable-next-line typescript/no-unnecessary-condition
  const made = crypto.subtle
    ? new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
    : crypto.getRandomValues(new Uint8Array(32));
  return [...made.subarray(0, 16)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** `fetch` does not report how far an upload is. */
function send(path: string, bytes: ArrayBuffer, progress: (share: number) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.upload.addEventListener('progress', ({ loaded, total }) => progress(total ? loaded / total : 0));
    request.addEventListener('load', () => {
      if (request.status >= 200 && request.status < 300) resolve();
      else reject(new ApiError(request.status, 'upload', request.responseText || `HTTP ${request.status}`));
    });
    request.addEventListener('error', () => reject(new ApiError(0, 'no_answer', t('away'))));
    request.open('PUT', path);
    request.send(bytes);
  });
}
