int launch_cub(int count);
