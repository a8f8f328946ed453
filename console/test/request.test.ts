import { expect, test } from 'vitest';
import type { JobDetail } from '../src/api/types';
import { BLANK, FieldError, like, request } from '../src/pages/request';
import { isZip } from '../src/store/packages';

const GIB = 2 ** 30;
const fields = { ...BLANK, entrypoint: 'python a.py' };

test('needs are of the tasks, a reservation is of the command', () => {
  const filled = { ...fields, cpus: '8', ownCpus: '1', ownMemory: '2', ownCustom: 'TPU=1, licence = 0.5' };
  expect(request(filled)).toEqual({
    entrypoint: 'python a.py',
    needs: { CPU: 8 },
    entrypoint_num_cpus: 1,
    entrypoint_memory: 2 * GIB,
    entrypoint_resources: { TPU: 1, licence: 0.5 },
  });
});

test('variables and the working directory are part of the runtime_env', () => {
  const filled = {
    ...fields,
    env: '{"pip": ["pandas"], "env_vars": {"A": "1", "B": "2"}}',
    vars: 'B=x=y\n\nURL= http://a \n',
  };
  expect(request(filled, 'gcs://p.zip').runtime_env).toEqual({
    pip: ['pandas'],
    env_vars: { A: '1', B: 'x=y', URL: ' http://a' },
    working_dir: 'gcs://p.zip',
  });
});

test('a field that cannot be read is named', () => {
  const problem = (more: Partial<typeof fields>): string | undefined => {
    try {
      request({ ...fields, ...more });
      return undefined;
    } catch (error) {
      return (error as FieldError).field;
    }
  };
  expect(problem({ env: '{pip: 1}' })).toBe('env');
  expect(problem({ env: '[1]' })).toBe('env');
  expect(problem({ vars: 'MODE' })).toBe('vars');
  expect(problem({ vars: '=x' })).toBe('vars');
  expect(problem({ ownCustom: 'TPU=many' })).toBe('ownCustom');
  expect(problem({ ownCustom: 'TPU=' })).toBe('ownCustom');
  expect(problem({})).toBeUndefined();
});

test('a job like another one is the same request, without its id and its secrets', () => {
  const job = {
    id: 'nightly',
    kind: 'job',
    entrypoint: 'python train.py',
    demand: { CPU: 8, memory: 4 * GIB, TPU: 1 },
    reserves: { CPU: 1, memory: 4 * GIB, TPU: 1 },
    preferred_cluster: 'mac',
    required: true,
    tags: ['macos', 'nightly'],
    priority: 5,
    max_retries: 2,
    runtime_env: { pip: ['pandas'], env_vars: { MODE: 'nightly', API_TOKEN: '<redacted>' } },
  } as unknown as JobDetail;
  const made = like(job);
  expect(made.secrets).toEqual(['API_TOKEN']);
  expect(request(made.fields)).toEqual({
    entrypoint: 'python train.py',
    needs: { CPU: 8 },
    entrypoint_num_cpus: 1,
    entrypoint_memory: 4 * GIB,
    entrypoint_resources: { TPU: 1 },
    preferred_cluster: 'mac',
    required: true,
    tags: ['macos', 'nightly'],
    priority: 5,
    max_retries: 2,
    runtime_env: { pip: ['pandas'], env_vars: { MODE: 'nightly', API_TOKEN: '' } },
  });
  const { reserves: _, ...simple } = job;
  expect(request(like(simple as JobDetail).fields)).toMatchObject({ entrypoint_num_cpus: 8 });
  expect(request(like(simple as JobDetail).fields).needs).toBeUndefined();
});

test('only a zip is uploaded', () => {
  expect(isZip(new Uint8Array([0x50, 0x4b, 3, 4]))).toBe(true);
  expect(isZip(new Uint8Array([0x50, 0x4b, 5, 6]))).toBe(true);
  expect(isZip(new TextEncoder().encode('PKzip'))).toBe(false);
  expect(isZip(new Uint8Array([]))).toBe(false);
});
