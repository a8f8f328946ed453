export const sample = true;
