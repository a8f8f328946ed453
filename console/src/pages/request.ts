// From the form to the request, and from a job back to the form. The control plane checks the
// values and has the better messages; here is checked only what could not be sent.

import type { JobDetail, JobRequest, Resources } from '../api/types';
import { t } from '../i18n';

export interface Fields {
  entrypoint: string;
  id: string;
  cluster: string;
  required: boolean;
  tags: string;
  cpus: string;
  gpus: string;
  memory: string;
  priority: string;
  retries: string;
  /** What Ray reserves for the command itself, on one node. */
  ownCpus: string;
  ownGpus: string;
  ownMemory: string;
  /** `TPU=1, licence=2`, of the command itself. */
  ownCustom: string;
  /** The runtime_env as JSON. */
  env: string;
  /** `NAME=value`, a line for each. */
  vars: string;
}

export const BLANK: Fields = {
  entrypoint: '',
  id: '',
  cluster: '',
  required: false,
  tags: '',
  cpus: '',
  gpus: '',
  memory: '',
  priority: '',
  retries: '',
  ownCpus: '',
  ownGpus: '',
  ownMemory: '',
  ownCustom: '',
  env: '',
  vars: '',
};

/** A field that cannot be read. */
export class FieldError extends Error {
  constructor(
    readonly field: keyof Fields,
    message: string,
  ) {
    super(message);
  }
}

/** `workingDir` is the address of an uploaded package. */
export function request(fields: Fields, workingDir?: string): JobRequest {
  const tags = fields.tags.split(/[\s,]+/).filter(Boolean);
  const env = runtimeEnv(fields, workingDir);
  const custom = pairs('ownCustom', fields.ownCustom, /[,\n]+/).map(([name, value]): [string, number] => {
    if (value === '' || Number.isNaN(Number(value))) {
      throw new FieldError('ownCustom', t('submit.badAmount', { name }));
    }
    return [name, Number(value)];
  });
  return clean({
    entrypoint: fields.entrypoint.trim(),
    id: fields.id.trim() || undefined,
    runtime_env: Object.keys(env).length > 0 ? env : undefined,
    needs: needs(fields),
    entrypoint_num_cpus: number(fields.ownCpus),
    entrypoint_num_gpus: number(fields.ownGpus),
    entrypoint_memory: gibibytes(fields.ownMemory),
    entrypoint_resources: custom.length > 0 ? Object.fromEntries(custom) : undefined,
    preferred_cluster: fields.cluster || undefined,
    required: (fields.cluster !== '' && fields.required) || undefined,
    tags: tags.length > 0 ? tags : undefined,
    priority: number(fields.priority),
    max_retries: number(fields.retries),
  });
}

function runtimeEnv(fields: Fields, workingDir: string | undefined): Record<string, unknown> {
  const env = parsed(fields.env);
  const vars = pairs('vars', fields.vars, /\n+/);
  const given = env['env_vars'];
  if (vars.length > 0) {
    env['env_vars'] = { ...(isObject(given) ? given : {}), ...Object.fromEntries(vars) };
  }
  if (workingDir !== undefined) env['working_dir'] = workingDir;
  return env;
}

function parsed(text: string): Record<string, unknown> {
  if (text.trim() === '') return {};
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new FieldError('env', t('submit.badJson', { error: (error as Error).message }));
  }
  if (!isObject(value)) throw new FieldError('env', t('submit.notObject'));
  return value;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function pairs(field: keyof Fields, text: string, between: RegExp): [string, string][] {
  const lines = text.split(between).filter((line) => line.trim() !== '');
  return lines.map((line) => {
    const at = line.indexOf('=');
    const name = line.slice(0, Math.max(0, at)).trim();
    if (!name) throw new FieldError(field, t('submit.badPair', { line: line.trim() }));
    const value = line.slice(at + 1);
    return [name, field === 'vars' ? value.trimEnd() : value.trim()];
  });
}

/** What the job's own tasks need: its driver reserves nothing. */
function needs(fields: Fields): Resources | undefined {
  const given = {
    CPU: number(fields.cpus),
    GPU: number(fields.gpus),
    memory: gibibytes(fields.memory),
  };
  const said = Object.entries(given).filter((entry): entry is [string, number] => entry[1] !== undefined);
  return said.length > 0 ? Object.fromEntries(said) : undefined;
}

function number(text: string): number | undefined {
  return text.trim() === '' ? undefined : Number(text);
}

function gibibytes(text: string): number | undefined {
  const given = number(text);
  return given === undefined ? undefined : Math.round(given * 2 ** 30);
}

/** Empty fields are not sent. */
function clean(given: { [K in keyof JobRequest]: JobRequest[K] | undefined }): JobRequest {
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as unknown as JobRequest;
}

/** How the control plane shows what it hides. */
const HIDDEN = '<redacted>';

/** The form of a job like this one, and the variables whose values are secret: those are not known here. */
export function like(job: JobDetail): { fields: Fields; secrets: string[] } {
  const { env_vars: given, ...env } = job.runtime_env ?? {};
  const vars = Object.entries(isObject(given) ? given : {}).map(([name, value]): [string, string] => [
    name,
    String(value),
  ]);
  const secrets = vars.filter(([, value]) => value.includes(HIDDEN)).map(([name]) => name);
  // Without a reservation of its own, all of the demand is the command's.
  const own = job.reserves ?? job.demand;
  const asked = Object.fromEntries(
    Object.entries(job.demand).filter(([name, amount]) => job.reserves && amount !== job.reserves[name]),
  );
  const custom = Object.entries(own).filter(([name]) => !['CPU', 'GPU', 'memory'].includes(name));
  const fields: Fields = {
    ...BLANK,
    entrypoint: job.entrypoint ?? '',
    cluster: job.preferred_cluster ?? '',
    required: job.required ?? false,
    tags: (job.tags ?? []).join(', '),
    cpus: text(asked['CPU']),
    gpus: text(asked['GPU']),
    memory: text(asked['memory'], 2 ** 30),
    ownCpus: text(own['CPU']),
    ownGpus: text(own['GPU']),
    ownMemory: text(own['memory'], 2 ** 30),
    ownCustom: custom.map(([name, amount]) => `${name}=${amount}`).join(', '),
    priority: text(job.priority || undefined),
    retries: text(job.max_retries || undefined),
    env: Object.keys(env).length > 0 ? JSON.stringify(env, null, 2) : '',
    vars: vars.map(([name, value]) => `${name}=${value.includes(HIDDEN) ? '' : value}`).join('\n'),
  };
  return { fields, secrets };
}

const text = (amount: number | undefined, unit = 1): string =>
  amount === undefined ? '' : String(Number((amount / unit).toFixed(4)));
