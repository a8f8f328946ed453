// From the form to the request. The browser checks that numbers are numbers; the control plane
// checks everything else and has the better messages.

import type { JobRequest, Resources } from '../api/types';

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
}

export function request(fields: Fields): JobRequest {
  const tags = fields.tags.split(/[\s,]+/).filter(Boolean);
  return clean({
    entrypoint: fields.entrypoint.trim(),
    id: fields.id.trim() || undefined,
    needs: needs(fields),
    preferred_cluster: fields.cluster || undefined,
    required: (fields.cluster !== '' && fields.required) || undefined,
    tags: tags.length > 0 ? tags : undefined,
    priority: number(fields.priority),
    max_retries: number(fields.retries),
  });
}

/** What the job's own tasks need: its driver reserves nothing. */
function needs(fields: Fields): Resources | undefined {
  const memory = number(fields.memory);
  const given = {
    CPU: number(fields.cpus),
    GPU: number(fields.gpus),
    memory: memory === undefined ? undefined : Math.round(memory * 2 ** 30),
  };
  const said = Object.entries(given).filter((entry): entry is [string, number] => entry[1] !== undefined);
  return said.length > 0 ? Object.fromEntries(said) : undefined;
}

function number(text: string): number | undefined {
  return text.trim() === '' ? undefined : Number(text);
}

/** Empty fields are not sent. */
function clean(given: { [K in keyof JobRequest]: JobRequest[K] | undefined }): JobRequest {
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as unknown as JobRequest;
}
